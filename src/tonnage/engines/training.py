"""Which training software does a name mean, and what is usual where nobody names any?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tonnage.domain.framework_spec import FrameworkSpec, Situation, SoftwareSpec
from tonnage.engines.registry import read_table


@cache
def training_families() -> Mapping[str, SoftwareSpec]:
    """Every family of training software by its name, in the order in which names are matched."""
    found = read_table("families", dict[str, tuple[SoftwareSpec, ...]])["software"]
    return MappingProxyType({spec.name: spec for spec in sorted(found, key=lambda spec: spec.precedence)})


@cache
def _frameworks() -> tuple[FrameworkSpec, ...]:
    return read_table("frameworks", dict[str, tuple[FrameworkSpec, ...]])["framework"]


def software_spec(name: str) -> SoftwareSpec:
    """The family of that name."""
    return training_families()[name]


@cache
def _words() -> Mapping[str, str]:
    """Word to family, in the order in which names are matched."""
    found: dict[str, str] = {}
    for spec in training_families().values():
        own = (word for one in _frameworks() if one.software == spec.name for word in one.words)
        found |= dict.fromkeys((*spec.words, *own), spec.name)
    return MappingProxyType(found)


def framework_words() -> tuple[str, ...]:
    """Every name that says which software runs; a framework is known by a name that it contains."""
    return tuple(_words())


def frameworks_in(name: str | None) -> tuple[FrameworkSpec, ...]:
    """Frameworks with something particular to them that a name contains."""
    given = (name or "").lower()
    return tuple(one for one in _frameworks() if any(word in given for word in (*one.words, *_stem(one))))


def software_of(
    framework: str | None, *, method: str = "pretrain", count: int = 1, layered: bool = True
) -> SoftwareSpec:
    """The family of a framework by name; without one, what such a job is usually run with."""
    name = (framework or "").lower()
    for one in _frameworks():
        if method == "pretrain" and one.pretrains_as is not None and name.startswith(_stem(one) or one.words):
            return software_spec(one.pretrains_as)
    for word, family in _words().items():
        if word in name:
            return software_spec(family)
    if method == "pretrain" and layered:
        return usual_software("pretrain" if count > 1 else "pretrain_alone")[0][0]
    return usual_software("finetune")[0][0]


def usual_software(situation: Situation) -> list[list[SoftwareSpec]]:
    """Software looked at where nobody names any, in groups: the fastest of the first group that fits."""
    grouped: dict[int, list[SoftwareSpec]] = {}
    for spec in training_families().values():
        for where, group in spec.usual:
            if where == situation:
                grouped.setdefault(group, []).append(spec)
    return [grouped[group] for group in sorted(grouped)]


def _stem(one: FrameworkSpec) -> tuple[str, ...]:
    return (one.stem,) if one.stem is not None else ()
