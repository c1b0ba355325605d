"""
What people write is read by the annotations of a request's struct: names, units, bounds, choices and defaults.

A YAML file, a command-line option, a form and a call from Python go through the same two steps: `read_fields` reads
each value, `build` makes the struct. Numbers are read with their unit here and nowhere else. `NAMES` is the one table
of names that may stand in a field: which there are, and how they are spelled here.
"""

from __future__ import annotations

import math
import numbers
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from tonnage import catalog, units
from tonnage.catalog import Additions, traffic
from tonnage.catalog.hardware import CODECS
from tonnage.catalog.hub.names import read_size
from tonnage.catalog.models import model_ids
from tonnage.catalog.names import provider_name
from tonnage.domain.precision import FORMATS, number_format
from tonnage.domain.requests.field import TAKEN, Field, Group, attributes_of, fields_of, groups_of
from tonnage.engines.registry import engine_name, engines, planned_engines
from tonnage.errors import BadRequest, TonnageError, UnknownName, echo
from tonnage.foreign import PASTED, plain_text
from tonnage.physics.optimizers import OPTIMIZERS, optimizer
from tonnage.record import Record


class Names(Record, kw_only=True):
    """One kind of name."""

    listed: Callable[[Additions], Iterable[str]]
    """Those there are, for forms and shells to complete."""
    spelled: Callable[[str, Additions], str] | None = None
    """Our spelling of a name, or an error; absent = the question looks it up itself."""
    closed: bool = False
    """There are no others: the list is the field's choices."""
    lower: bool = False
    """All are in small letters, and any capitals are read as such."""


def _looked_up(
    what: str, listed: Callable[[Additions], Iterable[str]], *, title: Callable[[str], str] = str,
    meant: Callable[[str], str] = str,
) -> Names:  # fmt: skip
    """Names that the catalogue's rows have, whatever their case, as they are shown (`title`), or `meant` by others."""

    def find(name: str, additions: Additions) -> str:
        folded = {called(item).lower(): item for called in (title, str) for item in listed(additions) if item}
        if (key := meant(name).lower()) not in folded:
            raise UnknownName(what, name, known=set(folded.values()))
        return folded[key]

    return Names(listed=listed, spelled=find)


NAMES: Final[dict[str, Names]] = {
    "models": Names(listed=model_ids),
    "profiles": Names(listed=lambda additions: traffic.profiles(), lower=True),
    "machines": Names(listed=lambda additions: (*catalog.servers(), *catalog.accelerators(additions))),
    "names of accelerators": Names(listed=catalog.accelerators),
    "accelerators": Names(
        listed=catalog.accelerators, spelled=lambda name, additions: catalog.accelerator(name, additions).id
    ),
    "planned accelerators": Names(
        listed=catalog.accelerators, spelled=lambda name, additions: catalog.predictable_accelerator(name, additions).id
    ),
    "formats": Names(listed=lambda additions: FORMATS, spelled=lambda name, additions: number_format(name).name),
    "optimizers": Names(listed=lambda additions: OPTIMIZERS, spelled=lambda name, additions: optimizer(name).name),
    "engines": Names(listed=lambda additions: engines(), spelled=lambda name, additions: engine_name(name)),
    "planned engines": Names(listed=lambda additions: planned_engines(), closed=True),
    "codecs": Names(listed=lambda additions: CODECS, closed=True),
    "vendors": _looked_up("vendor", lambda additions: {a.vendor for a in catalog.accelerators(additions).values()}),
    "providers": _looked_up(
        "provider", lambda additions: {o.provider for o in catalog.offers(additions=additions)}, title=provider_name
    ),
    "regions": _looked_up("region", lambda additions: {o.region or "" for o in catalog.offers(additions=additions)}),
    "countries": _looked_up(
        "country",
        lambda additions: {o.country or "" for o in catalog.offers(additions=additions)},
        meant=catalog.country_code,
    ),
    "all countries": _looked_up("country", lambda additions: catalog.countries(), meant=catalog.country_code),
}


def with_choices(field: Field) -> Field:
    """The field with the names of its table as choices, where there are no others."""
    names = NAMES.get(field.known)
    if names is None or not names.closed:
        return field
    return replace(field, choices=tuple(names.listed(catalog.NOTHING)))


def canonical_spelling(field: Field, text: str, *, additions: Additions) -> str:
    """
    A name in our spelling; as it is where the field has no table of names, or its question looks names up itself.

    Raises
    ------
    TonnageError
        There is none like it; the message names the nearest.
    """
    names = NAMES.get(field.known)
    return text if names is None or names.spelled is None else names.spelled(text, additions)


S = TypeVar("S", bound=msgspec.Struct)
MAX_ENTRIES: Final = 64
"""Of a field that takes a list of them."""
MAX_NAMES: Final = 1000
"""Of a field that takes a list of names; no table of names has as many."""
MAX_FIELDS: Final = 256
"""Of a request or a group in it; no question has a hundred."""
LONGEST_TEXT: Final = 2000
"""Characters of one value; a path has the most."""
MAX_WRONG: Final = 8
"""Fields that one message tells about."""


@cache
def request_fields(struct: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The fields at the top of a request, with the choices that the catalogue and the engines give them."""
    return tuple(with_choices(field) for field in fields_of(struct))


def read_fields(values: Mapping[str, Any], struct: type[msgspec.Struct], *, under: str = "") -> dict[str, Any]:
    """
    Every given value in base units by the name of its field; absent, null and empty ones are left out.

    Parameters
    ----------
    values : mapping
        Field name -> what the user wrote.
    struct : type
        That declares the fields.
    under : str
        Put before the names of fields in messages: "traffic.".

    Raises
    ------
    TonnageError
        An unknown field, or a value of the wrong kind, out of range or not among the choices. Where several are
        wrong, the sentence names each.
    """
    known = {field.name: field for field in request_fields(struct)}
    if len(values) > MAX_FIELDS:
        told = f"{under.rstrip('.')}: " if under else ""
        raise BadRequest(f"{told}{len(values):,} fields are given, of which {len(known)} are known; give those alone")
    given: dict[str, Any] = {}
    wrong: list[TonnageError] = []
    for name, value in values.items():
        key = str(name).replace("-", "_")
        try:
            key = key if key in known else TAKEN.get(key, key)
            if key not in known:
                raise UnknownName("field", str(name), known=known)
            if key in given:
                raise BadRequest(f"{name}: {key} is given already; give one of them")
            if value is not None and value not in ((), []):
                given[key] = _read(value, replace(known[key], name=f"{under}{key}"))
        except TonnageError as error:
            wrong.append(error)
        if len(wrong) > MAX_WRONG:
            raise BadRequest("; ".join(map(str, wrong[:MAX_WRONG])) + "; and more fields are wrong")
    if len(wrong) > 1:
        raise BadRequest("; ".join(map(str, wrong)))
    if wrong:
        raise wrong[0]
    return given


def build(struct: type[S], given: Mapping[str, Any], /, *, additions: Additions = catalog.NOTHING, **chosen: Any) -> S:
    """
    The request from fields already read, names in our spelling; a default is the struct's own.

    Parameters
    ----------
    struct : type
        Of the request or of a group in it.
    given : mapping
        What `read_fields` gives; fields of other structs are passed over.
    additions : Additions
        The user's own accelerators and offers, whose names are accepted too.
    chosen
        Attributes that follow from several fields.

    Raises
    ------
    TonnageError
        A name that there is not, or a field without a default that is not given.
    """
    values = dict(chosen)
    for attribute in attributes_of(struct):
        if attribute.name in values:
            continue
        place = next((group for group in attribute.groups if not group.name), None)
        if attribute.fields and attribute.fields[0].name in given:
            field = attribute.fields[0]
            values[attribute.name] = _attribute(field, given[field.name], additions)
        elif place is not None and attribute.type is place.of:
            values[attribute.name] = build(place.of, {**place.usual, **given}, additions=additions)
        elif attribute.fields and attribute.default is not msgspec.NODEFAULT:
            values[attribute.name] = _copy_default(attribute.default)
        elif attribute.fields:
            raise BadRequest(f"{attribute.fields[0].name} is missing: {attribute.fields[0].help}")
    return struct(**values)


def check_value(value: Any, field: Field, *, additions: Additions) -> None:
    """
    Read one value alone, for forms that say all at once what is wrong.

    Raises
    ------
    TonnageError
        The value is of the wrong kind, out of range, or names what is not known.
    """
    read = _attribute(field, _read(value, field), additions)
    if field.known == "models" and isinstance(read, str) and "/" not in read and read_size(read) is None:
        catalog.model(read, additions)


def need_model(given: Mapping[str, Any], example: str = "meta-llama/Llama-3.1-8B-Instruct' or '13B") -> None:
    """
    Refuse a request that names no model.

    Raises
    ------
    BadRequest
        It does not.
    """
    if "model" not in given:
        raise BadRequest(f"model is missing: name one, for example '{example}'")


def in_base_units(values: Mapping[str, Any], struct: type[msgspec.Struct]) -> dict[str, Any]:
    """
    A request from Python, its plain numbers written with the base units of their fields: rate=4 is 4/s.

    Groups and lists of entries are treated alike; texts, and fields whose numbers need no unit, stay.
    """
    reads = {field.name: field.reads for field in request_fields(struct)}
    groups = {group.name: group for group in groups_of(struct)}
    groups |= {f.name: Group(of=f.entries, name=f.name, many=True) for f in request_fields(struct) if f.entries}
    return {
        name: _group_in_base_units(value, groups[name]) if name in groups else _with_unit(value, reads.get(name, ""))
        for name, value in values.items()
    }


def _group_in_base_units(value: Any, group: Group) -> Any:
    if isinstance(value, Mapping):
        return in_base_units(value, group.of)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [in_base_units(entry, group.of) if isinstance(entry, Mapping) else entry for entry in value]
    return value


def _with_unit(value: Any, reads: str) -> Any:
    if isinstance(value, int) and value.bit_length() > sys.float_info.max_exp:
        return math.inf  # no number of ours, and too long for a message
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or reads not in units.DIMENSIONS:
        return value
    return units.exact_text(float(value), reads)


def _attribute(field: Field, value: Any, additions: Additions) -> Any:
    """A value as the struct holds it."""
    if field.means:
        return field.means[value]
    if field.reads == "entries":
        return tuple(one if isinstance(one, field.entries) else _entry(field, one, additions) for one in value)
    if field.reads == "list":
        spelled = (canonical_spelling(field, name, additions=additions) for name in value)
        return tuple(dict.fromkeys(spelled)) if field.known or field.choices else tuple(spelled)
    if field.reads == "flag":
        return value or None if field.default is None else value  # eu: false is no filter
    return canonical_spelling(field, value, additions=additions) if isinstance(value, str) else value


def _copy_default(default: Any) -> Any:
    """
    A default by value: msgspec leaves out of files what is the default's own object.

    A plan keeps the numbers and lists that it was made with, so that it says the same when a default has moved.
    """
    if isinstance(default, tuple):
        return tuple([*default])
    return type(default)(repr(default)) if type(default) in {int, float} else default


MOST_WHOLE: Final = 1e18
"""Of any count: what is larger counts nothing, and products of such leave the range of floats."""
_AMOUNT: Final = re.compile(r"\$?\s*(-?[\d.,_]+(?:[eE][+-]?\d+)?)\s*(USD|usd|\$)?")
"""A number without a unit, or money of no time: "50", "$50", "50 USD"."""


def _read(value: Any, field: Field) -> Any:
    """One value as its field reads it, in base units and within its bounds; plain numbers in the field's usual unit."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT and field.name not in PASTED and field.reads != "list":
        raise BadRequest(f"{field.name}: {len(value):,} characters are more than {LONGEST_TEXT:,}; {field.help}")
    if field.reads == "flag":
        return _flag(value, field)
    if field.reads == "list":
        return _names(value, field)
    if field.reads == "mapping":
        return _mapping(value, field)
    if field.reads == "entries":
        return _entries(value, field)
    if isinstance(value, (dict, list)):
        raise BadRequest(f"{field.name}: one value is expected, not {echo(value)}; {field.help}")
    if field.reads == "text":
        return _text(value, field)
    number = units.read(_in_usual_unit(value, field), _dimension(field), field=field.name)
    if (
        field.reads == "fraction"
        and isinstance(value, str)
        and field.high <= 1
        and 2 <= number <= 100
        and "%" not in value
    ):
        number /= 100.0  # "95" can only be percent
    if not field.low < number <= field.high or (field.whole and number > MOST_WHOLE):
        expected = _range(field) if number <= MOST_WHOLE else f"at most {min(field.high, MOST_WHOLE):g}"
        raise BadRequest(f"{field.name}: '{echo(value)}' is out of range; expected {expected}")
    if not field.whole:
        return number
    if number != int(number):
        raise BadRequest(f"{field.name}: '{echo(value)}' must be a whole number")
    return int(number)


def _in_usual_unit(value: Any, field: Field) -> Any:
    """The value with the usual unit of its field where it states none; refused where another may be meant."""
    plain = None if field.usual is None or isinstance(value, bool) else _AMOUNT.fullmatch(str(value).strip())
    if plain is None or field.usual is None:
        return value
    unit, least, most, other = field.usual
    try:
        fits = least <= float(plain[1]) <= most or float(plain[1]) < 0.0  # which the bounds refuse
    except ValueError:
        fits = True  # what is wrong with it, its reading says
    if not fits:
        number = echo(plain[1])
        raise BadRequest(f"{field.name}: '{echo(value)}' may be {number} {unit} or {number} {other}; write which")
    return f"{str(value).strip().removesuffix('$')}{'' if unit.startswith('/') else ' '}{unit}"


def _text(value: Any, field: Field) -> str:
    """A text without blanks around it, which must hold something and be among the choices, where there are any."""
    if isinstance(value, bool):
        raise BadRequest(f"{field.name}: a text is expected, not '{str(value).lower()}'; put it in quotes")
    text = str(value).strip()
    if not text:
        raise BadRequest(f"{field.name} is empty; {field.help}")
    if field.name not in PASTED:
        plain_text(text, where=field.name)
    text = _chosen(text, field, what=field.name)
    text = text.lower() if field.known in NAMES and NAMES[field.known].lower else text
    # One object for one word: defaults are left out of files by identity, whichever face the word came through.
    return sys.intern(text)


def _chosen(text: str, field: Field, *, what: str) -> str:
    """The choice that a text names, whatever its capitals; the text where the field has no choices."""
    found = next((one for one in field.choices if one.lower() == text.lower()), None)
    if field.choices and found is None:
        raise UnknownName(what, text, known=field.choices)
    return found or text


def _range(field: Field) -> str:
    high = "" if field.high == math.inf else f" and at most {units.show(field.high, _dimension(field))}"
    least = "at least" if field.low < 0 else "more than"
    return f"{least} {units.show(field.low, _dimension(field)) if field.low > 0 else 0}{high}"


def _dimension(field: Field) -> str:
    return "count" if field.reads == "integer" else field.reads


def _entries(value: Any, field: Field) -> tuple[Any, ...]:
    """A list of mappings, each read by the fields of its struct; entries that were read before stay."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise BadRequest(
            f"{field.name}: a list of entries is expected, not {echo(value)}; on the command line name a file of them"
        )
    if len(value) > MAX_ENTRIES:
        raise BadRequest(f"{field.name}: {len(value)} entries are more than {MAX_ENTRIES}")
    found: list[Any] = []
    for number, entry in enumerate(value, start=1):
        if isinstance(entry, field.entries):
            found.append(entry)
            continue
        if not isinstance(entry, Mapping):
            raise BadRequest(f"{field.name}: entry {number} is a group of fields, not {echo(entry)}")
        given = read_fields(entry, field.entries, under=f"{field.name}[{number}].")
        for one in (attribute.fields[0] for attribute in attributes_of(field.entries) if attribute.required):
            if one.name not in given:
                raise BadRequest(f"{field.name}[{number}].{one.name} is missing: {one.help}")
        found.append(given)
    return tuple(found)


def _entry(field: Field, given: Mapping[str, Any], additions: Additions) -> Any:
    return build(field.entries, given, additions=additions)


def _flag(value: Any, field: Field) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in {"true", "yes", "on", "1"}:
        return True
    if text in {"false", "no", "off", "0"}:
        return False
    raise BadRequest(f"{field.name}: '{echo(value)}' must be true or false")


def _mapping(value: Any, field: Field) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise BadRequest(f"{field.name} must hold 'name: value' lines, not '{echo(value)}'")
    return {str(key): item for key, item in value.items()}


def _names(value: Any, field: Field) -> tuple[str, ...]:
    """Texts of a list, or parted by commas, semicolons, "or" and "and"; those of a table or of choices once each."""
    if isinstance(value, dict):
        raise BadRequest(f"{field.name}: a list of names is expected, not {echo(value)}")
    parts = value if isinstance(value, (list, tuple)) else re.split(r"[,;]|\s(?:or|and)\s", str(value))
    names = tuple(str(part).strip() for part in parts if str(part).strip())
    if not names:
        raise BadRequest(f"{field.name} is empty; {field.help}")
    if field.known or field.choices:
        names = tuple(dict.fromkeys(names))
    if len(names) > MAX_NAMES:
        raise BadRequest(f"{field.name}: {len(names):,} entries are more than {MAX_NAMES:,}; {field.help}")
    for name in names:
        if len(plain_text(name, where=field.name)) > LONGEST_TEXT:
            raise BadRequest(f"{field.name}: '{echo(name)}' has more than {LONGEST_TEXT:,} characters; {field.help}")
    return tuple(_chosen(name, field, what=field.known.removesuffix("s") or field.name) for name in names)
