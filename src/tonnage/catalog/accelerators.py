"""
Which accelerators are known, and which one does a name mean, however a tool, a cloud or a person spells it?

Four looks, of which the first that finds something counts: the id itself; the table of family defaults ("H100" is the
SXM5 80GB); any id, alias or name, without case, punctuation and vendor's words ("NVIDIA", "GeForce", "Tesla"); and the
words of the name, all of which an accelerator must have ("h100 80gb hbm3"). Where several remain, the family's default
among them is taken and the others are told; without a default the name is refused.

One CSV row per accelerator under data/accelerators, a file per vendor, in the units datasheets use; this is
the one place that turns them into base units. The user's own accelerators and what-ifs come on top, so that
every caller sees one mapping.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog import hardware, what_if
from tonnage.catalog.additions import NOTHING, Additions, FileStates, calibrations, file_states, tables
from tonnage.catalog.rows import DATA, Row, number, table, yes_no
from tonnage.domain.accelerator import STATUSES, Accelerator, Fact, Link, parse_slice_name
from tonnage.errors import BadFact, BadRequest, TonnageError, UnknownName, echo, nearest
from tonnage.units import GB, GiB, MiB

# Words that tools print around the part's own name and that distinguish no two parts.
_NOISE: Final = frozenset(
    {"nvidia", "amd", "intel", "google", "aws", "apple", "qualcomm", "habana", "geforce", "tesla", "quadro", "radeon"}
    | {"instinct", "cloud", "cpu", "gpu", "graphics", "edition", "generation", "corporation", "accelerator"}
    | {"per", "chip", "socket", "core"}
)
_TRADE_MARKS: Final = frozenset({"r", "tm", "c"})
_PREFIX: Final = re.compile(r"^(rtx|gtx|rx|tpu|arc|jetson|cpu)(?=[0-9av])")
# Only a word with a digit names a part; "80GB", "HBM3" and "PCIe5" tell variants apart but name none.
_TELLING: Final = re.compile(r"(?=\D*\d)(?!\d+gi?b$|hbm|g?ddr|lpddr|sxm|pcie)")
MAX_NAME_LENGTH: Final = 200
"""Characters; no accelerator's name comes near it, and a hostile one is not worth comparing."""

_COUNTED: Final = re.compile(r"^\s*(\d{1,6})\s*(?:[x×*]\s*|\s)(?=.*[a-z])(?=.*\d)(.+)$", re.IGNORECASE)
_WORD: Final = re.compile(r"[a-z0-9]+(?:\.[0-9]+)?")
_NUMBERS: Final = {
    "a": 1, "one": 1, "single": 1, "two": 2, "dual": 2, "three": 3, "triple": 3, "four": 4, "quad": 4, "five": 5,
    "six": 6, "seven": 7, "eight": 8, "ten": 10, "twelve": 12, "sixteen": 16,
}  # fmt: skip
_IN_WORDS: Final = re.compile(rf"^\s*(?:a\s+)?({'|'.join(_NUMBERS)})\s+(?:x\s+)?(?=.*\d)", re.IGNORECASE)
_AFTER: Final = re.compile(r"^\s*(.*\S)\s+[x×]\s*(\d{1,4})\s*$", re.IGNORECASE)


def in_digits(text: str) -> str:
    """
    A count of accelerators that is written in words or behind the name, before it in digits.

    Examples
    --------
    >>> in_digits("two RTX 3090"), in_digits("RTX 3090 x2"), in_digits("RTX 3090"), in_digits("A100")
    ('2 x RTX 3090', '2 x RTX 3090', 'RTX 3090', 'A100')
    """
    if (after := _AFTER.match(text[:MAX_NAME_LENGTH])) is not None:
        return f"{after[2]} x {after[1]}"
    return _IN_WORDS.sub(lambda found: f"{_NUMBERS[found[1].lower()]} x ", text)


class Match(NamedTuple):
    """An accelerator's id, and the other ids that the same name could have meant."""

    id: str
    others: tuple[str, ...]


class Index(NamedTuple):
    """Where to look a name up: squeezed spellings, words, and the defaults of families."""

    spellings: Mapping[str, tuple[str, ...]]
    words: Mapping[str, frozenset[str]]
    defaults: Mapping[str, str]
    listed: tuple[str, ...]
    """Every id, alias and name, for suggestions."""


def index(accelerators: Iterable[Accelerator], defaults: Mapping[str, str]) -> Index:
    """Prepare the look-up once; `defaults` maps family names to ids."""
    spellings: dict[str, list[str]] = {}
    words: dict[str, frozenset[str]] = {}
    listed: list[str] = []
    for part in accelerators:
        given = (part.id, part.name, *part.aliases)
        listed += given
        for spelling in {form for name in given for form in _forms(name, lineless=True)}:
            ids = spellings.setdefault(spelling, [])
            if part.id not in ids:
                ids.append(part.id)
        every = " ".join((*given, part.form_factor, part.memory_type, part.architecture, part.vendor))
        words[part.id] = frozenset(_words(every)) | {_squeeze(name) for name in given}
    return Index(
        spellings={spelling: tuple(ids) for spelling, ids in spellings.items()},
        words=words,
        defaults={form: chosen for name, chosen in defaults.items() for form in _forms(name, lineless=True)},
        listed=tuple(listed),
    )


def resolve(name: str, index: Index) -> Match:
    """
    The accelerator that a name means, with the alternatives it passed over.

    Raises
    ------
    UnknownName
        No accelerator has this name, or several have and none is a default.
    BadRequest
        The name holds how many there are: "8x H100".
    """
    if len(name) > MAX_NAME_LENGTH:
        raise UnknownName("accelerator", name, known=index.words)
    plain = name.strip().lower()
    if plain in index.words:
        return Match(plain, ())
    forms = _forms(name)
    default = next((index.defaults[form] for form in forms if form in index.defaults), None)
    if default is not None and default in index.words and _has_remark(name, index.words[default]):
        return Match(default, _family(name, index, without=default))
    spelled = next((index.spellings[form] for form in forms if form in index.spellings), ())
    several = tuple(id for id in spelled or _with_words(name, index) if _has_remark(name, index.words[id]))
    if len(several) == 1:
        return Match(several[0], ())
    defaults = [id for id in index.defaults.values() if id in several]
    if not defaults and (counted := _COUNTED.match(in_digits(name))) is not None:
        one = resolve(counted[2], index).id
        how = (
            f"name '{one}' alone, and their number ({counted[1]}) where the question has a field for it: accelerators,"
            " tp, count or max_accelerators"
        )
        raise BadRequest(f"'{echo(name)}' is a number of accelerators: {how}")
    if not defaults and re.search(r"\ds\s*$", name):
        return resolve(name.rstrip()[:-1], index)  # "3090s"
    if not defaults:
        # Suggest ids, and other spellings only where no id comes near.
        other_spelling = not nearest(name, index.words) and nearest(name, index.listed)
        known = several or (index.listed if other_spelling else index.words)
        raise UnknownName("accelerator", name, known=known)
    return Match(defaults[0], tuple(id for id in several if id != defaults[0]))


def _has_remark(name: str, words: frozenset[str]) -> bool:
    """Whether what stands in brackets, which spellings leave out, is the part's: "(38-core GPU)"."""
    inside = _words(" ".join(re.findall(r"\((.*?)\)", name)))
    return all(word in words or word in _NOISE or word in _TRADE_MARKS for word in inside)


def _family(name: str, index: Index, *, without: str) -> tuple[str, ...]:
    """Every accelerator that has the words of the name or whose spelling starts with it."""
    start = _squeeze(name)
    starting = {id for spelling, ids in index.spellings.items() if spelling.startswith(start) for id in ids}
    both = starting.union(_with_words(name, index)) - {without}
    return tuple(id for id in index.words if id in both)


def _with_words(name: str, index: Index) -> tuple[str, ...]:
    wanted = [word for word in _words(name) if word not in _NOISE]
    if not any(_TELLING.match(word) for word in wanted):
        return ()
    return tuple(id for id, words in index.words.items() if words.issuperset(wanted))


def _words(name: str) -> list[str]:
    return _WORD.findall(name.lower())


def _squeeze(name: str) -> str:
    """A name without what people write between its words; numbers stay apart: "RTX 207 0" is no "RTX 2070"."""
    return re.sub(r"(?<!\d)-|-(?!\d)", "", "-".join(word for word in _words(name) if word not in _NOISE))


def _forms(name: str, *, lineless: bool = False) -> tuple[str, ...]:
    """
    The spellings that mean this name: squeezed, and without what stands in brackets.

    Names of the catalogue are found without their product line, too (`lineless`): "4090" is an RTX 4090, but "GTX 4090"
    is nothing.
    """
    forms = [_squeeze(name), _squeeze(re.sub(r"\(.*?\)", "", name))]
    forms += [_PREFIX.sub("", form) for form in forms] if lineless else []
    return tuple(dict.fromkeys(filter(None, forms)))


# Every peak is dense. H100's "3,958 TFLOPS FP8" is with 2:4 sparsity, and GeForce rates are with FP32
# accumulate (RTX 4090 bf16 165, not 330); the faster fp16 with fp16 accumulate has a column of its own.
_PEAKS: Final = {
    **{f"{dtype}_tflop_per_s": dtype for dtype in ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "fp16_accum16")},
    **{f"{dtype}_tflop_per_s": dtype for dtype in ("bf16", "fp8", "fp4")},
    **{f"{dtype}_top_per_s": dtype for dtype in ("int8", "int4")},
}
_TERA: Final = 1e12

_MEMORY: Final = re.compile(r"\s(\d{1,4}) ?[Gg][Bb]\s*$")
"""The size behind a name."""


def accelerators(additions: Additions = NOTHING) -> Mapping[str, Accelerator]:
    """Every accelerator by id: the shipped ones, the user's own, what-ifs applied. Cached until a file changes."""
    return _all_accelerators(additions, file_states(additions))


def accelerator(name: str, additions: Additions = NOTHING) -> Accelerator:
    """
    One accelerator by id, alias or name, however it is punctuated; a family name gives its default variant.

    A slice of one is named by its profile: "H100:1g.10gb".

    Raises
    ------
    UnknownName
        No such accelerator, or several and no default among them; suggests the nearest.
    BadRequest
        The name holds how many there are: "8x H100".

    Examples
    --------
    >>> accelerator("NVIDIA H100 80GB HBM3").id, accelerator("4090").id, accelerator("tpu v5e").id
    ('h100-sxm5-80gb', 'rtx-4090', 'tpu-v5e')
    """
    known = accelerators(additions)
    found = known.get(name)
    if found is not None:
        return found
    split = parse_slice_name(name)
    if split is not None:
        return _slice(accelerator(split[0], additions), split[1])
    spellings = _index(additions, file_states(additions))
    try:
        return known[resolve(name, spellings).id]
    except UnknownName:
        stated = _MEMORY.search(name)
        if stated is None:
            raise
        # "MI300X 192 GB", as answers name it: the part without its size, if that is its size.
        try:
            part = known[resolve(name[: stated.start()], spellings).id]
        except TonnageError:
            part = None
        if part is None or float(stated[1]) not in {round(part.memory_bytes / unit) for unit in (GB, GiB)}:
            raise
        return part


def predictable_accelerator(name: str, additions: Additions = NOTHING) -> Accelerator:
    """
    The same for a question that needs a prediction.

    Raises
    ------
    UnknownName
        As `accelerator` does.
    BadRequest
        Nobody published how fast this part computes what a prediction would need.

    Examples
    --------
    >>> predictable_accelerator("h200").id
    'h200-sxm-141gb'
    """
    part = accelerator(name, additions)
    if part.status == "facts-only":
        raise BadRequest(
            f"accelerator: how fast {part.name} runs each operation is not published, so nothing is predicted for "
            f"it; `tonnage catalog accelerators {part.id}` shows what is known and which results were published"
        )
    return part


def status_note(part: Accelerator) -> str | None:
    """The sentence that warns of a part that is only announced; absent for one that is sold or rented."""
    if part.status != "announced":
        return None
    return f"{part.name} is announced, not measured: its figures are from {part.fact.source}"


def _slice(whole: Accelerator, profile: str) -> Accelerator:
    known = {one.profile: one for one in hardware.slices_of(whole.id)}
    if profile not in known:
        raise UnknownName(f"slice of {whole.id}", profile, known=known)
    return hardware.part_of(whole, known[profile])


def ambiguity(name: str, additions: Additions = NOTHING) -> str | None:
    """
    The sentence that tells which variant a family name was taken as; absent when the name means one thing.

    Examples
    --------
    >>> ambiguity("H200")
    "'H200' taken as H200 SXM 141GB; also: H200 NVL 141GB"
    >>> ambiguity("h100-sxm5-80gb") is None
    True
    """
    known = accelerators(additions)
    if name in known or parse_slice_name(name) is not None:
        return None
    match = resolve(name, _index(additions, file_states(additions)))
    if not match.others:
        return None
    also = ", ".join(known[other].name for other in match.others)
    return f"'{name}' taken as {known[match.id].name}; also: {also}"


@cache
def _read_shipped() -> Mapping[str, Accelerator]:
    """Every shipped accelerator by id, from all tables of the folder but that of family defaults."""
    known: dict[str, Accelerator] = {}
    for path in sorted((DATA / "accelerators").glob("*.csv")):
        if path.stem == "defaults":
            continue
        for row in table(path):
            if row.get("id") in known:
                raise BadFact(f"{path.name}: accelerator '{row['id']}' is listed twice")
            try:
                known[row["id"]] = _from_row(row)
            except KeyError as column:
                raise BadFact(f"{path.name}: no column {column}; files of this folder list accelerators") from None
    return MappingProxyType(known)


@lru_cache(maxsize=16)
def _all_accelerators(additions: Additions, _stamp: FileStates) -> Mapping[str, Accelerator]:
    """
    The shipped accelerators and the user's own, overrides applied, the user's calibrations at their parts.

    `_stamp` is read by the cache alone: the states of the files.
    """
    known = dict(_read_shipped())
    for where, given in tables(additions, "accelerator"):
        added = what_if.from_table(given, where=where)
        if added.id in known:
            raise BadFact(
                f"{where}: id '{added.id}' is taken; choose another, or change single facts with "
                f"--set {added.id}.FIELD=VALUE"
            )
        known[added.id] = added
    if additions.overrides:
        spellings = index(known.values(), _defaults())
        for name, changes in what_if.parse_overrides(additions.overrides).items():
            changed = resolve(name, spellings).id
            known[changed] = what_if.override(known[changed], changes)
    for own in calibrations(additions) if additions.paths and additions.calibrated else ():
        part = known.get(own.accelerator)
        if part is None:
            raise UnknownName("accelerator of a calibration", own.accelerator, known=known)
        known[part.id] = replace(part, calibrations={**part.calibrations, own.engine: own})
    if additions.published:
        known = {name: replace(part, published=True) for name, part in known.items()}
    return MappingProxyType(known)


@lru_cache(maxsize=16)
def _index(additions: Additions, _stamp: FileStates) -> Index:
    return index(_all_accelerators(additions, _stamp).values(), _defaults())


@cache
def _defaults() -> dict[str, str]:
    return {row["name"]: row["id"] for row in table(DATA / "accelerators" / "defaults.csv")}


def _from_row(row: Row) -> Accelerator:
    """An accelerator from its row, in base units; a column that the table lacks is a KeyError."""
    peaks = {
        dtype: value for column, dtype in _PEAKS.items() if (value := number(row, column, factor=_TERA)) is not None
    }
    return Accelerator(
        id=row["id"],
        vendor=row["vendor"],
        name=row["name"],
        architecture=row["architecture"],
        segment=row["segment"],
        # The vendor's figure, GB or GiB as the row says: "80 GB" of an H100 is 79.6 GiB to the driver, "288 GB"
        # of a B300 is decimal. What a process can use is the driver's total, in MiB.
        memory_bytes=_required_number(row, "memory", GiB if row["memory_unit"] == "GiB" else GB),
        memory_bytes_per_s=_required_number(row, "memory_gb_per_s", GB),
        usable_memory_bytes=number(row, "usable_memory_mib", factor=MiB),
        memory_type=row["memory_type"],
        peaks=peaks,
        link=_link(row, kind="link_kind", rate="link_both_directions_gb_per_s", domain=row["link_domain"]),
        host_link=_link(row, kind="host_kind", rate="host_both_directions_gb_per_s", domain=""),
        status=_status(row),
        fact=Fact(source=row["source"], cross_check=row["cross_check"], notes=row["notes"], checked=row["checked"]),
        aliases=tuple(filter(None, row["aliases"].split(";"))),
        compute_capability=row["compute_capability"] or None,
        year=_whole_number(row, "year"),
        form_factor=row["form_factor"],
        power_w=number(row, "power_w"),
        ecc=yes_no(row, "ecc"),
        mig_slices=_whole_number(row, "mig_slices") or 0,
        max_per_node=_whole_number(row, "max_per_node"),
        launch_price_usd=number(row, "launch_price_usd"),
        street_price_usd=number(row, "street_price_usd"),
    )


def _status(row: Row) -> str:
    """Tables of parts on sale have no such column."""
    status = row.get("status", STATUSES[0])
    if status not in STATUSES:
        raise BadFact(f"{row['id']}: status is '{status}', but one of {', '.join(STATUSES)} is expected")
    return status


def _link(row: Row, *, kind: str, rate: str, domain: str) -> Link:
    # Vendors print both directions together: NVLink 900 and PCIe 5 x16 126 GB/s; a collective sees 450 and 63.
    return Link(kind=row[kind] or "none", bytes_per_s=number(row, rate, factor=GB / 2), domain=int(domain or 1))


def _required_number(row: Row, column: str, factor: float) -> float:
    value = number(row, column, factor=factor)
    if value is None or value <= 0:
        raise BadFact(f"{row['id']}: {column} is '{row[column]}', but a positive number is expected")
    return value


def _whole_number(row: Row, column: str) -> int | None:
    """A cell without its fraction; absent when empty."""
    value = number(row, column)
    return None if value is None else int(value)
