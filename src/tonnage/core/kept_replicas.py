"""
Replicas of a plan's configurations, built, and kept where one question or a server asks for them again.

What is kept follows from the arguments alone: a whole replica, and below it the parts of steps and the deployment,
which another length of what is computed, or other drafts, leave as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Final

from msgspec.structs import replace

from tonnage.core.deployment import case_of, deploy
from tonnage.core.replica import Replica, replica_of
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.case import Traffic
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.requests.common import Lengths
from tonnage.physics.known import Known

MOST_SHAPES: Final = 500
"""Of steps that are kept for one configuration: a server is asked for many lengths."""


def build_replica(lengths: Lengths, *, model: Model, accelerator: Accelerator, configuration: Configuration) -> Replica:
    """The replica of a plan's configuration for requests of these lengths; without times where it does not fit."""
    return _BUILD[-1](_Same(accelerator), model, configuration, lengths)


def keep_replicas(most: int) -> None:
    """
    From now on keep so many replicas of this process: a server's next question is mostly its last at another load.

    Nothing else moves them: a replica follows from these arguments alone, a user's calibrations being the
    accelerator's. Off unless asked for, since measuring and fitting change what lies below.
    """
    _BUILD[1:] = [lru_cache(maxsize=most)(partial(_built, parts=lru_cache(maxsize=most)(_no_parts)))]


@contextmanager
def kept_replicas(most: int) -> Iterator[None]:
    """The same for one question that looks at many loads; where replicas are kept already, those stay."""
    before = _BUILD[1:]
    if not before:
        keep_replicas(most)
    try:
        yield
    finally:
        _BUILD[1:] = before


class _Same:
    """An accelerator as a key: the very same object, since its record holds mappings and has no hash."""

    __slots__ = ("one",)

    def __init__(self, one: Accelerator) -> None:
        self.one = one

    def __hash__(self) -> int:
        return id(self.one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.one is other.one


def _no_parts(accelerator: _Same, model: Model, configuration: Configuration) -> Known:
    return {}


def _built(
    accelerator: _Same,
    model: Model,
    configuration: Configuration,
    lengths: Lengths,
    *,
    parts: Callable[[_Same, Model, Configuration], Known] | None = None,
) -> Replica:
    """A replica; `parts` gives what is known of steps of its configuration, of other lengths or with other drafts."""
    bare = replace(configuration.engine, draft_model=None, speculative_tokens=None, speculative_acceptance=None)
    plain = replace(configuration, engine=bare)
    known = parts(accelerator, model, plain) if parts else {}
    if len(known) > MOST_SHAPES:
        known.clear()
    name = configuration, lengths.prompt_tokens, lengths.output_tokens, lengths.images  # what a case reads of both
    if name not in known:
        case = case_of(configuration, model=model, lengths=lengths, traffic=Traffic(rate_per_s=1.0))
        known[name] = deploy(case, model=model, accelerator=accelerator.one)
    return replica_of(known[name], lengths, known=known)


_BUILD: Final[list[Callable[[_Same, Model, Configuration, Lengths], Replica]]] = [_built]
"""What builds replicas: the last of these."""
