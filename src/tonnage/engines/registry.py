"""
Which engines and frameworks are known, what does a name mean, and what does one do when a setting is not given?

Facts stand in tables of the folder `data`: an engine's defaults are rows of field, value, release and source there;
what no row can say is a function in the module of its name. Versions matter: vLLM raised its memory share in 0.21 and
changed its batch limits four times. A version can be a release ("0.6.4"), a word around one ("rocm7.0_vllm_0.10.2"), or
a date ("2025-07"), which stands for the release of that month; without any of them the newest release known here is
assumed, and `assumptions` says so.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.engine_spec import Default, EngineSpec, ResolvedEngine, ServerMetrics, Starting
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.requests.field import refuse_unknown_names
from tonnage.domain.training import FrameworkSpec, Situation, SoftwareSpec
from tonnage.errors import BadRequest, UnknownName, did_you_mean, echo, nearest

SETTINGS: Final = tuple(name for name in Engine.__struct_fields__ if name not in {"name", "version"})
"""Settings of an engine that a case may state."""
_FOLDER: Final = Path(__file__).parent / "data"
_T = TypeVar("_T")
_COUNTS: Final = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_tokens")


@cache
def engines() -> Mapping[str, EngineSpec]:
    """Every engine by its name."""
    found = read_table("engines", dict[str, tuple[EngineSpec, ...]])["engine"]
    return MappingProxyType({spec.name: spec for spec in found})


def read_table(name: str, kind: type[_T]) -> _T:
    """A table of facts of the folder `data`, by its name without `.toml`."""
    return msgspec.toml.decode((_FOLDER / f"{name}.toml").read_bytes(), type=kind)


def read_settings(options: Mapping[str, Any], spec: EngineSpec, *, version: str | None) -> Engine:
    """
    The engine noun with the settings that a case states, by our names or by the engine's own.

    Raises
    ------
    BadRequest
        No setting of that name enters a prediction, a value is of another kind or out of range, or two contradict.
    """
    found = dict(options) if options.keys() <= set(SETTINGS) else _own_settings(options, spec)
    try:
        engine = msgspec.convert({"name": spec.name, "version": version, **found}, Engine)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise BadRequest(f"engine_options{place.rstrip('`')}: {message[:1].lower()}{message[1:]}") from None
    refuse_unknown_names(found.get("adapters"), engine.adapters, path="engine_options.adapters")
    for name in _COUNTS:
        if (count := getattr(engine, name)) is not None and count < 1:
            raise BadRequest(f"engine_options.{name}: {count} is out of range; expected at least 1")
    if engine.memory_fraction is not None and not 0.0 < engine.memory_fraction <= 1.0:
        raise BadRequest(f"engine_options.memory_fraction: {engine.memory_fraction:g} is no share; expected up to 1")
    if engine.speculative_tokens is None and (engine.draft_model or engine.speculative_acceptance is not None):
        raise BadRequest("engine_options: drafts need speculative_tokens, how many are drafted a step")
    return engine


def stated_settings(engine: Engine) -> dict[str, Any]:
    """The settings that are given, by our names."""
    return {name: value for name in SETTINGS if (value := getattr(engine, name)) is not None}


def _own_settings(options: Mapping[str, Any], spec: EngineSpec) -> dict[str, Any]:
    """Our settings behind the engine's own names, among which some turn one off."""
    found: dict[str, Any] = {}
    for written, value in options.items():
        name = written.lstrip("-").replace("-", "_")
        off = name in spec.own_switches
        setting = spec.own_switches.get(name) or spec.own_settings.get(name, name)
        part, _, field = setting.partition(".")
        if field:
            told = f"'{echo(written)}' is said by the case's {part}: {part}: {{{field}: {echo(value)}}}"
            raise BadRequest(f"engine_options: {told}")
        if setting not in SETTINGS:
            known = [*sorted(SETTINGS), *spec.own_settings, *spec.own_switches]
            hint = did_you_mean(nearest(name, known, count=1))
            raise BadRequest(
                f"engine_options: no setting '{echo(written)}' of {spec.title} enters a prediction; {hint}"
                f"those that do: {', '.join(sorted(SETTINGS))}"
            )
        if off and not isinstance(value, bool):
            raise BadRequest(f"engine_options.{name}: true or false is expected, not '{echo(value)}'")
        meant = not value if off else value
        if found.setdefault(setting, meant) != meant:
            raise BadRequest(f"engine_options: '{name}' contradicts another name of {setting}; keep one")
    return found


def planned_engines() -> tuple[str, ...]:
    """Engines that plans consider, best measured first."""
    found = [(spec.planned, spec.name) for spec in engines().values() if spec.planned is not None]
    return tuple(name for _, name in sorted(found))


def engine_spec(name: str) -> EngineSpec:
    """
    The engine of that name, whatever its spelling.

    Raises
    ------
    UnknownName
        No such engine.
    """
    found = find_engine(name)
    if found is None:
        raise UnknownName("engine", name, known=engines())
    return found


def engine_name(name: str) -> str:
    """The engine's own name for any spelling of it."""
    return engine_spec(name).name


def find_engine(name: str) -> EngineSpec | None:
    """The engine of that name, whatever its spelling; absent where none is called so."""
    return _spellings().get(name.strip().lower())


def engine_title(name: str) -> str:
    """An engine as its project writes it, without a release; one that is not listed as it is."""
    spec = find_engine(name)
    return name if spec is None else spec.title


def release_of(name: str, engine: Engine | None = None) -> str:
    """The release of a serving engine that is planned, and that files start; empty where none is known."""
    spec = find_engine(name)
    stated = engine.version if engine is not None else None
    return stated or (spec and (spec.pinned or (spec.releases[-1][1] if spec.releases else ""))) or ""


def engine_release(name: str, engine: Engine | None = None) -> str:
    """A serving engine as its project writes it, with the release that is meant."""
    spec = find_engine(name)
    if spec is None:
        return name
    release = release_of(name, engine)
    return f"{spec.title} {release.removesuffix('.0') if release == spec.pinned else release}".strip()


def unlisted_engine() -> EngineSpec:
    """What an engine that nobody described is taken for: a library that allocates by need."""
    return next(spec for spec in engines().values() if spec.stands_for)


@cache
def _pages() -> Mapping[str, ServerMetrics]:
    return read_table("metrics", dict[str, ServerMetrics])


@cache
def server_metrics() -> tuple[ServerMetrics, ...]:
    """Metrics pages, those of engines before those of servers around them."""
    return tuple(sorted(_pages().values(), key=lambda page: (page.around, page.name)))


def metrics_of(name: str) -> ServerMetrics | None:
    """The metrics page of an engine; absent where nobody documented one."""
    return _pages().get(engine_name(name))


@cache
def _spellings() -> Mapping[str, EngineSpec]:
    every = engines().values()
    aliases = {alias: spec for spec in every for alias in spec.aliases}
    return MappingProxyType({**aliases, **{spec.name: spec for spec in every}})


Release = tuple[int, ...]

NEWEST: Final[Release] = (99_999,)
"""Stands for the newest release when the version is not known."""


def release(engine: Engine, year: int | None = None) -> Release | None:
    """
    The release as numbers; absent where neither the version nor a year says one.

    A build counts before a number in the version ("b4589"), that before a date. A date, or June of the year, means the
    newest release known then, the oldest of all where it is earlier, and no older one than a word beside it stands for;
    of a line such as "0.2.x" it picks the release.
    """
    text = engine.version or ""
    if build := re.search(r"\bb(\d{3,5})\b", text):
        return (int(build.group(1)),)
    found = _RELEASE.search(_after_name(text, engine.name))
    spec = find_engine(engine.name)
    if found is not None and spec is not None and spec.versions_from and _numbers(found.group(1)) < spec.versions_from:
        found = None
    known = spec.releases if spec is not None else ()
    month = _month(text) or (f"{year}-06" if year is not None else None)
    if found is not None and (month is None or ".x" not in text):
        return _numbers(found.group(1))
    if month is None or not known:
        return _numbers(found.group(1)) if found is not None else None
    dated = _numbers(next((number for day, number in reversed(known) if day <= month), known[0][1]))
    if found is not None:  # "0.2.x (Dec 2023)": the month picks the release of that line
        line = _numbers(found.group(1))
        return dated if dated[: len(line)] == line else line
    words = spec.words if spec is not None else ()
    least = [least for word, least in words if re.match(rf"{word}\b", text, re.IGNORECASE)]
    return max((dated, *least))


def stated_release(engine: Engine, year: int | None = None) -> Release | None:
    """
    As `release`, but a number that may be another product's (`versions_below`) counts for nothing: the year alone dates
    it then.
    """
    found = release(engine, year)
    below = engine_spec(engine.name).versions_below
    if found is not None and below is not None and found >= below:
        return release(replace(engine, version=None), year)
    return found


def resolve_engine(engine: Engine, year: int | None = None) -> ResolvedEngine:
    """The engine as it will run: its record and its release beside its settings, which may still be filled."""
    spec = engine_spec(engine.name)
    return ResolvedEngine(spec=spec, settings=engine, release=release(engine, year) or NEWEST)


_RELEASE: Final = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d{1,3}){1,2})(?!\d)")
_MONTHS: Final = {
    "jan": "01", "feb": "02", "mar": "03", "apr": "04", "may": "05", "jun": "06", "jul": "07", "aug": "08",
    "sep": "09", "oct": "10", "nov": "11", "dec": "12", "ear": "02", "lat": "11",
}  # fmt: skip
"""Months, early and late in a year, by their first three letters."""


def _month(text: str) -> str | None:
    """The month a text names: "2025-07", "20251006", "Jan 2025", "early 2025", or the middle of a bare year."""
    if found := re.search(r"(20\d\d)-?([01]\d)", text):
        return f"{found.group(1)}-{found.group(2)}"
    found = re.search(r"\b(?:(\w{3})\w*[ -])?(20\d\d)\b", text)
    return f"{found.group(2)}-{_MONTHS.get((found.group(1) or '').lower(), '06')}" if found else None


def _after_name(text: str, name: str) -> str:
    """The part of a container tag that follows the engine's name: "rocm7.0.0_vllm_0.10.2" -> "0.10.2"."""
    return text.rsplit(f"{name}_", 1)[-1] if f"{name}_" in text else text


def _numbers(text: str) -> Release:
    return tuple(int(number) for number in text.split("."))


def unsupported_reason(engine: str, accelerator: Accelerator) -> str | None:
    """One sentence why the engine does not run on this accelerator; absent when nothing speaks against it."""
    spec = engine_spec(engine)
    if spec.vendors is not None and accelerator.vendor not in spec.vendors:
        return f"{spec.name} does not run on {accelerator.vendor} accelerators"
    least, stated = spec.least_capability, accelerator.compute_capability
    # Other makers name their targets otherwise ("gfx942").
    if accelerator.vendor == "NVIDIA" and least is not None and stated is not None and float(stated) < least:
        return f"{spec.name} needs compute capability {least}, and {accelerator.name} has {stated}"
    return None


def explain_defaults(
    engine: Engine,
    accelerator: Accelerator,
    *,
    model: Model,
    layout: Layout | None = None,
    year: int | None = None,
    offline: bool = False,
) -> tuple[Default, ...]:
    """
    The settings that the engine chooses itself on this accelerator for this model, each with its source, whether or not
    `engine` states them.
    """
    spec = engine_spec(engine.name)
    known = replace(engine, name=spec.name)
    at = Starting(
        engine=known,
        release=release(known, year) or NEWEST,
        accelerator=accelerator,
        model=model,
        layout=layout or Layout(),
        offline=offline,
    )
    return tuple(_chosen(spec, at))


def _chosen(spec: EngineSpec, at: Starting) -> Iterator[Default]:
    """
    Its rows, or those of the engine that it starts as, which the release has reached; then what its own rule adds.

    The last row of a field counts. `max_model_len` is the model's own context where that is known, cut to the row's
    value where the row says so.
    """
    like = engines()[spec.starts_as or spec.name]
    for row in {row.field: row for row in like.defaults if row.since <= at.release}.values():
        stated = at.model.max_context
        if row.field != "max_model_len" or not stated:
            yield row
        else:
            yield replace(row, value=min(stated, row.value) if row.capped else stated)
    if like.rule:
        yield from importlib.import_module(f"{__package__}.{like.name}").defaults(at)


def defaults(
    engine: Engine,
    accelerator: Accelerator,
    *,
    model: Model,
    layout: Layout | None = None,
    year: int | None = None,
    offline: bool = False,
) -> Engine:
    """
    The engine with every absent setting filled by its own default; what the user gave stays.

    `year` dates an engine whose version is not known; `offline` takes the defaults of the batch class where they
    differ from the server's.
    """
    chosen = explain_defaults(engine, accelerator, model=model, layout=layout, year=year, offline=offline)
    filled = {default.field: default.value for default in chosen if getattr(engine, default.field) is None}
    return replace(engine, name=engine_name(engine.name), **filled)


def assumptions(engine: Engine, year: int | None = None) -> tuple[str, ...]:
    """What had to be assumed about the engine, one sentence each; none where its release is known."""
    if release(replace(engine, name=engine_name(engine.name)), year) is not None:
        return ()
    what = f"version '{engine.version}' is not a release" if engine.version else "version not given"
    return (f"{engine.name}: {what}; defaults of the newest release known are used",)


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
    """
    The family of training software that a framework's name means, by the words that it contains.

    Without a name, or with one that no table knows, it is what such a job usually runs with: of pre-training by
    `count`, the number of accelerators; of fine-tuning, and of networks without transformer layers (`layered` False),
    plain PyTorch scripts. Which software runs on TPUs is the caller's to know (`usual_software`).
    """
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
