"""What a record of this package is: it never changes; in files and answers, what is at its default is left out."""

from __future__ import annotations

from typing import dataclass_transform

import msgspec

__all__ = ["Record", "SparseRecord"]


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True):
    """A record that never changes: another is made from it by `msgspec.structs.replace`."""


class SparseRecord(Record, omit_defaults=True):
    """A record of files and answers, of which fields that hold their default are not written."""
