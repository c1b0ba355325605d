"""Where is the history? A file, or a database by URL; said by an option, the environment, or nobody."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from tonnage.errors import BadRequest, echo

__all__ = ["OFF", "PLACE_ENV", "Place", "place_of"]

PLACE_ENV: Final = "TONNAGE_HISTORY"
OFF: Final = "off"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two."""

    path: Path | None = None
    url: str | None = None
    """Of PostgreSQL; may hold a password, so it is never shown."""

    @property
    def shown(self) -> str:
        """Without anything secret."""
        if self.path is not None:
            return str(self.path)
        hidden = re.sub(r"//[^@/]*@", "//***@", self.url or "")
        return re.sub(r"(?i)((?:password|sslpassword|passfile)=)[^&]*", r"\1***", hidden)


def place_of(given: str | None = None) -> Place | None:
    """
    The place that an option or TONNAGE_HISTORY names, else a file in the user's data folder; nothing when it is off.

    Examples
    --------
    >>> place_of("postgresql://me:secret@db/tonnage").shown
    'postgresql://***@db/tonnage'
    >>> place_of("off")
    """
    name = given or os.environ.get(PLACE_ENV)
    if name is None:
        import platformdirs

        return Place(path=Path(platformdirs.user_data_path("tonnage")) / "history.sqlite")
    if name == OFF:
        return None
    scheme, mark, rest = name.partition("://")
    if not mark:
        return Place(path=Path(name))
    if scheme == "sqlite":
        return Place(path=Path(rest.removeprefix("/")))  # sqlite:///relative, sqlite:////absolute
    if scheme in {"postgresql", "postgres"}:
        return Place(url=name)
    raise BadRequest(f"history: '{echo(scheme)}' is no kind of database here; name a file or a postgresql:// address")
