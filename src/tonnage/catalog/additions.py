"""
What does the user know that the catalogue does not? Own accelerators and offers, what-ifs, and own measurements.

`Additions` names files or folders of TOML and overrides such as "h100-sxm5-80gb.memory_bw=4.8TB/s". It is a value:
loaders take it as an argument, so that two requests in one process may differ. `gather` adds the places a person's own
facts live: the user folder, if it exists, and the folder named by TONNAGE_CATALOG. `[[calibration]]` tables of the same
files are what the user's own stack has measured; of two for the same accelerator and engine the later file counts.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.catalog.rows import write_whole
from tonnage.domain.calibration import Calibration, Learnt, Stretch
from tonnage.errors import BadFact, UnknownName, did_you_mean, echo, echo_path, nearest
from tonnage.foreign import check_values
from tonnage.record import SparseRecord
from tonnage.units import read

VARIABLE: Final = "TONNAGE_CATALOG"
NO_CALIBRATION: Final = "none"
PUBLISHED: Final = "published"
SECTIONS: Final = ("accelerator", "offer", "model", "calibration")
"""Lists a file may hold, one table per thing."""

MAX_BYTES: Final = 4 * 1024 * 1024
"""A file of facts larger than this is something else."""

FileStates = tuple[tuple[str, int, int], ...]
"""Path, time of change and size of every file: what a cache of their content hangs on."""


class Additions(SparseRecord, kw_only=True):
    """The user's own facts: files or folders of TOML, and overrides "ID.FIELD=VALUE", in order."""

    paths: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    calibrated: bool = True
    """Whether the calibrations in the files count; False shows what they change."""
    published: bool = False
    """Whether published rows of a model on its stack count as points of it (`catalog.published`)."""


NOTHING: Final = Additions()

TEMPLATE: Final = """\
# Your own accelerators and offers. Keep this file in a folder and name it with --additions or TONNAGE_CATALOG,
# or put it into the user folder that `tonnage catalog --help` names. Quantities carry their unit.

[[accelerator]]
id = "my-card-48gb"                 # lower case, digits, hyphens
name = "My Card 48GB"
vendor = "Example"                  # optional
architecture = "Ada"                # optional: a known one lets measured efficiencies be borrowed
segment = "workstation"             # datacenter, cloud-only, workstation, consumer, edge, apple, cpu
aliases = ["MyCard"]                # optional
memory = "48 GiB"                   # as the vendor states it
usable_memory = "46068 MiB"         # optional: the total that the driver reports
memory_bw = "960 GB/s"
power = "300 W"                     # optional
peak.bf16 = "180 TFLOP/s"           # dense; one line a dtype, an absent one is not supported
peak.fp8 = "360 TFLOP/s"
link_kind = "nvlink4-bridge"        # optional: a link between accelerators ...
link_bw = "300 GB/s"                # ... per accelerator, ONE direction (vendors print both together) ...
link_domain = 2                     # ... and how many share it at full rate
host_kind = "pcie5"                 # optional
host_bw = "63 GB/s"                 # one direction
max_per_node = 8                    # optional
street_price = "$7000"              # optional
source = "vendor datasheet"         # required: where the figures come from
checked = 2026-11-21                # optional

[[offer]]
provider = "my-machine-room"
accelerator = "my-card-48gb"
count = 8
on_demand = "$9.60/h"               # whole instance; also spot, reserved_1y, reserved_3y
region = "cellar-1"                 # optional, as are country, vcpus, ram, local_nvme, network, nvlink, notes
country = "DE"
ram = "512 GB"
network = "400 Gbit/s"
as_of = 2026-11-21                  # required: prices age
source = "internal price list"      # required
"""
"""A file of additions to start from; a test reads it back."""


def user_folder() -> Path:
    """Where a person's own facts live; it need not exist."""
    from platformdirs import user_config_path

    return user_config_path("tonnage", appauthor=False) / "catalog"


def gather(*, paths: tuple[str, ...] = (), overrides: tuple[str, ...] = ()) -> Additions:
    """
    The given files and overrides, and the user's own folders before them.

    A path `none` (`--calibration none`) leaves every calibration out, those of the user's folders too; `published` lets
    published rows count as points of their model on their stack, for whoever runs it as their publishers do.
    """
    own = [user_folder()] if user_folder().is_dir() else []
    named = [Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []
    files = tuple(path for path in paths if path not in (NO_CALIBRATION, PUBLISHED))
    calibrated = NO_CALIBRATION not in paths
    return Additions(
        paths=(*map(str, (*own, *named)), *files),
        overrides=overrides,
        calibrated=calibrated,
        published=calibrated and PUBLISHED in paths,
    )


def tables(additions: Additions, section: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table of one section, each with where it stands ("cards.toml: accelerator 2")."""
    for path, changed, size in file_states(additions):
        for place, given in enumerate(_read(path, changed, size).get(section, ()), start=1):
            yield f"{path}: {section} {place}", given


def file_states(additions: Additions) -> FileStates:
    """The files that the paths lead to, and their state; empty for no additions."""
    if not additions.paths:
        return ()
    return tuple(_state(file) for path in additions.paths for file in _files(Path(path)))


def _files(path: Path) -> list[Path]:
    """
    The TOML files that a path names: itself, or those directly in a folder, by name.

    Left out of a folder is what cannot be meant: hidden files (locks and copies of editors, such as `.#own.toml`),
    folders, pipes and devices.

    Raises
    ------
    BadFact
        The folder cannot be read.
    """
    if not path.is_dir():
        return [path]
    try:
        named = [file for file in sorted(path.iterdir()) if file.suffix.lower() == ".toml" and file.name[0] != "."]
    except OSError as error:
        raise BadFact(f"'{echo_path(path)}': no reading this folder of additions: {error.strerror}") from None
    return [file for file in named if file.is_file() or file.is_symlink()]


def _state(file: Path) -> tuple[str, int, int]:
    """The file with its time of change and its size, if it is one that can be read again; a `BadFact` otherwise."""
    if not file.exists():
        raise BadFact(
            f"'{echo_path(file)}': no such file or folder of additions; `tonnage catalog offers --template` prints one"
        )
    if file.is_fifo() and not file.resolve().exists():  # the shell's `<(command)`: what it gave is kept, as it is gone
        return str(file), 0, 0
    if not file.is_file():
        raise BadFact(f"'{echo_path(file)}' is a pipe or device; additions are read again, so write a file")
    state = file.stat()
    if state.st_size > MAX_BYTES:
        raise BadFact(f"'{echo_path(file)}' has {state.st_size} bytes; a file of additions has at most {MAX_BYTES}")
    return str(file), state.st_mtime_ns, state.st_size


@lru_cache(maxsize=64)
def _read(path: str, _changed: int, _size: int) -> dict[str, list[dict[str, Any]]]:
    """The lists of tables in one file, by section; cached for as long as its time and size stay."""
    try:
        content = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadFact(f"'{echo_path(path)}' is not UTF-8 text; a file of additions is TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise BadFact(f"'{echo_path(path)}' is not TOML: {error}") from None
    check_values(content, where=f"'{echo_path(path)}'", lines=False)
    for section, things in content.items():
        if section not in SECTIONS:
            hint = did_you_mean(f"[[{close}]]" for close in nearest(section, SECTIONS, count=1))
            expected = ", ".join(f"[[{known}]]" for known in SECTIONS)
            raise BadFact(f"'{echo_path(path)}': unknown section '{echo(section)}'; {hint}expected {expected}")
        if not isinstance(things, list) or not all(isinstance(thing, dict) for thing in things):
            raise BadFact(f"'{echo_path(path)}': '{section}' must be a list of tables; write [[{section}]]")
    return content


_FACTORS: Final = ("memory", "compute")
_FURTHER: Final = ("attention", "host", "links")
"""Factors that files of tonnage.calibration/1 lack: 1 there."""
_TIMES: Final = {"step": "step_s", "sequence": "sequence_s", "request": "request_s"}
CALIBRATION_SCHEMA: Final = "tonnage.calibration/3"
_SCHEMAS: Final = ("tonnage.calibration/1", "tonnage.calibration/2", CALIBRATION_SCHEMA)
_TEXTS: Final = ("accelerator", "engine", "date", "machine", "engine_version")
_OTHERS: Final = ("schema", "models", "points", "spread", "factors", "carried", "carried_factors", "widths", "learnt")
PLACE: Final = 7
"""How many numbers `Learnt.place` holds, and how many causes `Learnt.shares`."""
_MAX_FACTOR: Final = 1e4
"""A factor beyond this is a slip of the pen."""


def calibrations(additions: Additions) -> tuple[Calibration, ...]:
    """
    Every calibration of the user's files, in order.

    Raises
    ------
    BadFact
        A field is missing, unknown, without unit or impossible.
    """
    return tuple(_from_table(given, where=where) for where, given in tables(additions, "calibration"))


def any_counts(additions: Additions) -> bool:
    """Whether any calibration counts: the user's own, or published rows."""
    return additions.published or (additions.calibrated and bool(additions.paths) and bool(calibrations(additions)))


def _from_table(given: Mapping[str, Any], *, where: str) -> Calibration:
    """A calibration from its table; a field that is missing, unknown or impossible is a `BadFact`."""
    allowed = (*_FACTORS, *_FURTHER, *_TIMES, *_TEXTS, *_OTHERS)
    for field in given:
        if field not in allowed:
            raise BadFact(f"{where}: {UnknownName('field', field, known=allowed)}")
    for field in ("accelerator", "engine", *_FACTORS):
        if field not in given:
            raise BadFact(f"{where}: {field} is missing; `tonnage calibrate` writes a whole file")
    if given.get("schema", CALIBRATION_SCHEMA) not in _SCHEMAS:
        raise BadFact(
            f"{where}: schema '{echo(given['schema'])}' is none of {', '.join(_SCHEMAS)}; a later release of Tonnage "
            "may have written it"
        )
    numbers = {name: _factor(given[name], name, where) for name in (*_FACTORS, *_FURTHER) if name in given}
    for name, field in _TIMES.items():
        if name in given:
            numbers[field] = read(str(given[name]), "s", field=f"{where}: {name}")
    try:
        return Calibration(
            stretch=Stretch(**numbers),
            **{name: str(given[name]) for name in _TEXTS if name in given},
            spread={k: float(v) for k, v in given.get("spread", {}).items()},
            factors=_widths(given, "factors", where),
            carried=min(1.0, _factor(given.get("carried", 1.0), "carried", where)),
            carried_factors=_widths(given, "carried_factors", where),
            models=tuple(str(name) for name in given.get("models", ())),
            points=int(given.get("points", 0)),
            learnt=tuple(_learnt(one, where) for one in given.get("learnt", ())),
            widths={k: _factor(v, f"widths.{k}", where) for k, v in given.get("widths", {}).items()},
            source=Path(where.rpartition(":")[0]).name,
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise BadFact(f"{where}: {echo(error)}; `tonnage calibrate` writes a whole file") from None


def _learnt(given: Mapping[str, Any], where: str) -> Learnt:
    """
    A measured number of a file.

    Raises
    ------
    BadFact
        It lacks a field, or one is no number that a measurement could have.
    """
    try:
        one = msgspec.convert(given, Learnt, strict=False)
    except msgspec.ValidationError as error:
        raise BadFact(f"{where}: learnt: {echo(error)}; `tonnage calibrate` writes a whole file") from None
    sized = len(one.place) == len(one.shares) == PLACE
    logs = (one.left, one.part, *one.shares)
    if not sized or not all(0 < x < 1e12 for x in one.place) or not all(abs(x) < 100 for x in logs):
        raise BadFact(
            f"{where}: learnt: {PLACE} positive numbers of a place, {PLACE} shares and a logarithm are expected"
        )
    return msgspec.structs.replace(one, noise=_factor(one.noise, "learnt.noise", where))


def _widths(given: Mapping[str, Any], name: str, where: str) -> dict[str, float]:
    return {k: max(1.0, _factor(v, f"{name}.{k}", where)) for k, v in given.get(name, {}).items()}


def _factor(value: Any, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1.0 / _MAX_FACTOR < value < _MAX_FACTOR:
        raise BadFact(f"{where}: {name} is '{echo(value)}', but a positive factor is expected")
    return float(value)


def calibration_toml(found: Calibration) -> str:
    """The calibration as a file of additions: it counts wherever --additions or the user folder brings it."""
    s = found.stretch
    lines = [
        f"# Fitted by `tonnage calibrate` on {found.date} to the user's own measurements. Factors are on the",
        "# catalogue's times of the engine; every question about this engine on this accelerator takes them.",
        "",
        "[[calibration]]",
        f"schema = {_quote(CALIBRATION_SCHEMA)}",
        f"accelerator = {_quote(found.accelerator)}",
        f"engine = {_quote(found.engine)}",
        *([f"engine_version = {_quote(found.engine_version)}"] if found.engine_version else []),
        f"date = {_quote(found.date)}",
        f"machine = {_quote(found.machine)}",
        f"models = [{', '.join(_quote(name) for name in found.models)}]",
        f"points = {found.points}",
        f"memory = {s.memory:.5g}",
        f"attention = {s.attention:.5g}",
        f"compute = {s.compute:.5g}",
        f"links = {s.links:.5g}",
        f"host = {s.host:.5g}",
        f'step = "{s.step_s * 1e6:.5g} us"',
        *([] if s.sequence_s is None else [f'sequence = "{s.sequence_s * 1e6:.5g} us"']),
        f'request = "{s.request_s * 1e6:.5g} us"',
        *(f"spread.{name} = {value:.4g}" for name, value in found.spread.items()),
        *(f"factors.{name} = {value:.5g}" for name, value in found.factors.items()),
        f"carried = {found.carried:.4g}",
        *(f"carried_factors.{name} = {value:.5g}" for name, value in found.carried_factors.items()),
        *(f"widths.{name} = {value:.5g}" for name, value in found.widths.items()),
        *(["learnt = [", *map(_learnt_toml, found.learnt), "]"] if found.learnt else []),
        "",
    ]
    return "\n".join(lines)


def _learnt_toml(one: Learnt) -> str:
    place, shares = (", ".join(f"{x:.5g}" for x in numbers) for numbers in (one.place, one.shares))
    return (
        f"  {{ model = {_quote(one.model)}, quantity = {_quote(one.quantity)}, place = [{place}], "
        f"left = {one.left:.5g}, noise = {one.noise:.5g}, shares = [{shares}]"
        + (f", part = {one.part:.4g}" if one.part else "")
        + (f", setting = {_quote(one.setting)} }}," if one.setting else " },")
    )


def calibration_file(accelerator: str, engine: str) -> Path:
    """Where the user folder keeps the calibration of an engine on an accelerator."""
    return user_folder() / f"calibration-{accelerator}-{engine}.toml"


def save_calibration(found: Calibration, path: Path | None = None) -> Path:
    """
    Writes the file, without a path into the user folder, whence every later answer takes it; where it lies. What it
    replaces is kept beside it for `take_back`.
    """
    path = path or calibration_file(found.accelerator, found.engine)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        write_whole(_before(path), path.read_bytes())
    write_whole(path, calibration_toml(found).encode())
    return path


def take_back(path: Path) -> bool:
    """
    A calibration is what it was before its last one; whether there was one before (else there is none any more).

    Raises
    ------
    BadFact
        There is no such calibration.
    """
    if not path.is_file():
        raise BadFact(f"{echo_path(path)}: there is no such calibration to take back")
    if not _before(path).is_file():
        path.unlink()
        return False
    _before(path).replace(path)
    return True


def _before(path: Path) -> Path:
    return path.with_name(f"{path.name}.before")


def _quote(text: str) -> str:
    return msgspec.json.encode("".join(c for c in text if c.isprintable())).decode()
