"""Human quantities outside, base units inside.

`read("80 GiB", "bytes")` gives 85899345920.0 and `show(8.6e10, "bytes")` gives "80.1 GiB". This
is the only module that converts. Inside, every number is in a base unit: bytes, seconds, FLOP,
FLOP/s, bytes/s, tokens, watts, USD, USD/h (the one exception to seconds, because prices are
quoted so everywhere).

A bare number is refused where the dimension has rival units (80 GB and 80 GiB differ by 7 %);
counts, tokens and USD take one. Rates are written "4/s", "240/min"; prices "$2.10/h".

What half of the world reads otherwise is refused, not guessed: a decimal comma ("0,5 s"), a comma that may be
one ("1,500 ms"), "b", which is bits to some and bytes to others ("400 Gb/s"), and "m" where only "M" is known or the
other way round ("4 m/s", "12 mwh"). Counts and money have no thousandths: there "10m" is ten million.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from tonnage.errors import UnitError, did_you_mean, echo, nearest

KiB: Final = 1024
MiB: Final = 1024**2
GiB: Final = 1024**3
GB: Final = 1e9
TB: Final = 1e12

_DECIMAL: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY: Final = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_TIME: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
    "week": 604800.0,
    "weeks": 604800.0,
    "month": 730 * 3600.0,
    "months": 730 * 3600.0,
    "year": 8760 * 3600.0,
    "years": 8760 * 3600.0,
}
_COUNT: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def _with_prefixes(unit: str, prefixes: Mapping[str, float]) -> dict[str, float]:
    return {prefix + unit: factor for prefix, factor in prefixes.items()}


def _per(units: Mapping[str, float], seconds: Mapping[str, float]) -> dict[str, float]:
    return {f"{unit}/{time}": factor / s for unit, factor in units.items() for time, s in seconds.items()}


_BYTES: Final = {**_with_prefixes("B", _DECIMAL), **_with_prefixes("B", _BINARY)}
_BITS: Final = {f"{prefix}bit": factor / 8 for prefix, factor in _DECIMAL.items()}
_TOKENS: Final = {prefix + noun: f for prefix, f in _COUNT.items() for noun in ("", " tokens", " tok")}
_COUNTED: Final = _TOKENS | {
    prefix + noun: f
    for prefix, f in _COUNT.items()
    for noun in (" items", " users", " examples", " epochs", " steps", " GPUs", " accelerators")
}
_RATE_TIME: Final = {key: _TIME[key] for key in ("s", "sec", "min", "h", "hour", "d", "day", "week", "month")}

DIMENSIONS: Final[dict[str, dict[str, float]]] = {
    "bytes": _BYTES,
    "bytes/s": {
        **_per(_BYTES, {"s": 1.0}),
        **_per(_BITS, {"s": 1.0}),
        **{f"{prefix}bps": factor / 8 for prefix, factor in _DECIMAL.items()},
        **{f"{prefix}Bps": factor for prefix, factor in _DECIMAL.items()},
    },
    "s": _TIME,
    "FLOP": _with_prefixes("FLOP", _DECIMAL),
    "FLOP/s": {
        **_per(_with_prefixes("FLOP", _DECIMAL), {"s": 1.0}),
        **_with_prefixes("FLOPS", _DECIMAL),
        **_per(_with_prefixes("OP", _DECIMAL), {"s": 1.0}),
        **_with_prefixes("OPS", _DECIMAL),
    },
    "count": _COUNTED,
    "tokens": _TOKENS,
    "tokens/s": dict.fromkeys(("", "tokens/s", "token/s", "tok/s", "t/s", "tps"), 1.0),
    "1/s": {
        **_per({"": 1.0, "req": 1.0, "requests": 1.0, "k": 1e3, "M": 1e6}, _RATE_TIME),
        **{"rps": 1.0, "qps": 1.0, "req/s": 1.0, "QPS": 1.0, "RPS": 1.0},
    },
    "W": {"mW": 1e-3, "W": 1.0, "kW": 1e3, "MW": 1e6},
    "Wh": {"Wh": 1.0, "kWh": 1e3, "MWh": 1e6},
    "USD": {"": 1.0, "$": 1.0, "USD": 1.0, "k": 1e3, "kUSD": 1e3, "M": 1e6},
    "USD/h": {"/h": 1.0, "USD/h": 1.0, **_per({"": 1.0, "USD": 1.0, "k": 1e3, "kUSD": 1e3}, {"month": 730.0})},
    "USD/kWh": {"USD/kWh": 1.0, "/kWh": 1.0, "USD/MWh": 1e-3, "/MWh": 1e-3},
    "USD/kW-month": {"USD/kW-month": 1.0, "/kW-month": 1.0, "/kW/month": 1.0, "USD/kW/month": 1.0},
    "USD/year": {"": 1.0, "/year": 1.0, "USD/year": 1.0, "k/year": 1e3, "kUSD/year": 1e3, "/month": 12.0},
    "years": {"": 1.0, "year": 1.0, "years": 1.0, "y": 1.0, "month": 1 / 12, "months": 1 / 12},
    "fraction": {"": 1.0, "%": 0.01},
}
"""Accepted unit spellings and their factor to the base unit, by dimension."""

_ALL: Final = frozenset(unit for units in DIMENSIONS.values() for unit in units)

_QUANTITY: Final = re.compile(r"\s*([$])?\s*([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*\Z", re.DOTALL)
_THOUSANDS: Final = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?\Z")
_UNDERSCORES: Final = re.compile(r"[+-]?[1-9]\d{0,2}(?:_\d{3})+(?:\.\d*)?(?:[eE][+-]?\d+)?\Z")
_WHOLE: Final = ("count", "tokens", "tokens/s", "USD", "USD/year")
"""Dimensions of whole numbers, where "1,500" can only be thousands: with a unit that scales nothing."""
_ONES: Final = ("", "$", "USD", "/year", "USD/year", "tokens/s", "tok/s", "t/s", *(
    unit.strip() for unit, factor in _COUNTED.items() if factor == 1.0 and unit
))  # fmt: skip
_LONG: Final = {"1/s": ("/min", "/h", "/hour", "/d", "/day", "/week", "/month"), "USD/h": ("/month", "/year")}
"""Units in which nobody counts thousandths, so that a comma parts thousands."""
_WORDS: Final = {
    "percent": "%", "second": "s", "minute": "min", "hour": "h", "hr": "h", "wk": "week", "mo": "month",
    "dollar": "USD", "thousand": "k", "million": "M", "billion": "B", "trillion": "T",
}  # fmt: skip
"""What people write out -> a unit's spelling here."""
_WORD: Final = re.compile(rf"\b({'|'.join(_WORDS)})s?\b", re.IGNORECASE)
_BITS_OR_BYTES: Final = re.compile(r"((?:[kKMGTPE]i?)?)b(/s|ps)?\Z")
_POINT_OR_THOUSANDS: Final = re.compile(r"[1-9]\d{0,2}\.\d{3}\Z")
_BY_CASE: Final = frozenset({"s", "1/s", "W", "Wh", "USD/kWh"})
"""Dimensions in which "m" may be thousandths, so that its case is not overlooked."""
_M: Final = re.compile(r"m(?!in|on)", re.IGNORECASE)
_MINUTES: Final = {"m": "min", "/m": "/min", "rpm": "/min", "RPM": "/min", "qpm": "/min"}
"""What is meant more often than the nearest spelling."""
_LONGEST: Final = 64
_CURRENCIES: Final = {"€": "euro", "£": "pounds", "¥": "yen", "₹": "rupees", "EUR": "euro", "GBP": "pounds",
                      "CHF": "francs", "JPY": "yen", "CNY": "yuan", "INR": "rupees"}  # fmt: skip
_CURRENCY: Final = re.compile("|".join(rf"{sign}(?![A-Za-z])" for sign in _CURRENCIES))
_DATE: Final = re.compile(r"\s*\d{4}-\d{1,2}-\d{1,2}")


def read(text: str | float, dimension: str, *, field: str = "value") -> float:
    """
    Read one quantity written by a person.

    Parameters
    ----------
    text : str or number
        "80 GiB", "3.35 TB/s", "500 ms", "4/s", "$2.10/h", "100B tokens", "70 %".
    dimension : str
        A key of DIMENSIONS: what the field measures.
    field : str
        Name of the field, for the message.

    Returns
    -------
    float
        The value in the base unit of the dimension.

    Raises
    ------
    UnitError
        No number, no unit where one is needed, a unit of another dimension, or not finite; a comma or a unit that
        two readers take for two values.

    Examples
    --------
    >>> read("80 GiB", "bytes") - read("80 GB", "bytes")
    5899345920.0
    >>> read("240/min", "1/s")
    4.0
    """
    units = DIMENSIONS[dimension]
    _refuse_currency_or_date(text, dimension, field)
    plain = re.sub(r"(?<=\d)[ \u202f](?=\d{3}\b)", ",", str(text)[:_LONGEST])  # "1 000 000"
    plain = plain.lstrip("<=≤ ") if dimension == "s" else plain  # a limit as answers write it
    match = _QUANTITY.match(plain) if not isinstance(text, bool) else None
    if dimension == "bytes/s" and (memory := re.fullmatch(r"(?i)\s*ddr\d-(\d{4,5})\s*", str(text)[:_LONGEST])):
        channel = 8e-3 * int(memory[1])
        raise UnitError(f"{field}: {echo(text)} is {channel:g} GB/s a channel; with two write '{2 * channel:g} GB/s'")
    if match is None or len(str(text)) > _LONGEST:
        raise UnitError(f"{field}: '{echo(text)}' is not a quantity; write for example '{_example(dimension)}'")
    sign, digits, unit = match.groups()
    written = unit.strip()
    unit = re.sub(r"\s*\b(?:per|an?)\s+", "/", _WORD.sub(lambda found: _WORDS[found[1].lower()], written))
    if dimension.startswith("USD/") and sign is None:
        unit = unit.removeprefix("$")  # "2.10 $/h", as half of Europe writes it
    if sign == "$" and not dimension.startswith("USD"):
        raise UnitError(f"{field}: '{echo(text)}' is money, but {dimension} is expected: '{_example(dimension)}'")
    long = unit.endswith(_LONG.get(dimension, ()))
    _refuse_comma(text, digits, "" if long else unit, whole=long or dimension in _WHOLE, field=field)
    if dimension == "tokens" and not unit and isinstance(text, str) and _POINT_OR_THOUSANDS.match(digits):
        either = f"{digits.replace('.', '')} or {float(digits):g} tokens"
        raise UnitError(f"{field}: '{echo(text)}' may be {either}; write the one that is meant")
    factor = _factor(unit, units, by_case=dimension in _BY_CASE)
    if factor is None:
        raise UnitError(_explain(text, unit if unit in _ALL else written, dimension, field))
    value = float(digits.replace("_", "").replace(",", "")) * factor
    if not math.isfinite(value):
        raise UnitError(f"{field}: '{echo(text)}' is not a finite quantity")
    return value


def exact_text(value: float, dimension: str) -> str:
    """
    A number of the base unit as `read` takes it back, digit for digit.

    Examples
    --------
    >>> exact_text(4, "1/s"), exact_text(0.5, "s"), exact_text(2, "USD/h"), exact_text(70, "tokens")
    ('4/s', '0.5 s', '2 USD/h', '70')
    """
    base = {"bytes": "B", "bytes/s": "B/s", "1/s": "/s"}.get(dimension, dimension)
    whole = float(value).is_integer() and abs(value) < 2**53
    number = str(int(value)) if whole else repr(float(value))
    plain = "" in DIMENSIONS[dimension] and (whole or dimension != "tokens")
    return number if plain else f"{number}{'' if base == '/s' else ' '}{base}"


def _refuse_currency_or_date(text: object, dimension: str, field: str) -> None:
    """Refuse other currencies, whose rates nobody gave, and dates where a length of time is expected."""
    money = _CURRENCY.search(str(text)[:_LONGEST]) if dimension.startswith("USD") else None
    if money is not None:
        other = _CURRENCIES[money[0]]
        raise UnitError(f"{field}: '{echo(text)}' is in {other}; prices here are in USD, write '{_example(dimension)}'")
    if dimension == "s" and _DATE.match(str(text)[:_LONGEST]):
        raise UnitError(f"{field}: '{echo(text)}' is a date; write how long from now, for example '8 h' or '30 days'")


def _refuse_comma(text: object, digits: str, unit: str, *, whole: bool, field: str) -> None:
    """
    Refuse marks that do not part thousands, and a comma that may part thousands or decimals.

    `whole`: the dimension counts, so that a comma before three digits of a plain number can only part thousands.
    """
    if not {"_", ","} & {*digits, *unit[:1]} and unit[:1] != ".":
        return
    said = f"{field}: '{echo(text)}'"
    if unit[:1] in {",", "."}:  # "1.000,5", "1.000.000": points and commas the other way round
        raise UnitError(f"{said} is no number as it is written here; part decimals by a point: 1000.5, 1,000,000")
    if "_" in digits and not _UNDERSCORES.match(digits):
        raise UnitError(f"{said} has '_' elsewhere than between thousands; write for example 1_000_000")
    commas, thousands = digits.count(","), _THOUSANDS.match(digits) is not None
    if commas == 0 or (thousands and (commas > 1 or "." in digits)):
        return
    if commas > 1:
        raise UnitError(f"{said} is no one number; write one value, for example 1,000,000 or 2.5")
    decimal = digits.replace(",", ".")
    if not thousands:
        raise UnitError(f"{said} has a decimal comma; write '{echo(f'{decimal} {unit}'.strip())}'")
    if not (whole and unit in _ONES):
        either = f"{digits.replace(',', '')} or {decimal}"
        raise UnitError(f"{said} may be {either}; write the one that is meant, without the comma")


def _factor(unit: str, units: Mapping[str, float], *, by_case: bool) -> float | None:
    """
    Factor of a unit to the base unit; None where it is not known, or may be bits as well as bytes.

    Spaces, "per" and case are overlooked where one unit alone is meant; with `by_case` the case of an "m" counts.
    """
    if unit in units:
        return units[unit]
    bits = _BITS_OR_BYTES.match(unit)
    if bits and (bits[1] or f"kB{bits[2] or ''}" in units):
        return None
    squeezed = unit.replace(" per ", "/").replace(" ", "")
    for known, factor in units.items():
        if known.replace(" ", "") == squeezed:
            return factor
    if "/s" in squeezed and _BITS_OR_BYTES.match(squeezed[:1].upper() + squeezed[1:]):
        return None  # "400 gb/s" of a network is bits, of a memory bytes
    folded = {factor: known for known, factor in units.items() if known.replace(" ", "").lower() == squeezed.lower()}
    if len(folded) != 1:
        return None
    factor, known = folded.popitem()
    return None if by_case and _M.findall(known) != _M.findall(squeezed) else factor


def _explain(text: object, unit: str, dimension: str, field: str) -> str:
    """Why a quantity with this unit is refused, in a sentence with what to write instead."""
    if not unit:
        number = echo(str(text).strip())
        example = f"{number}/s' or '{number}/h" if dimension == "1/s" else _example(dimension)
        return f"{field}: '{echo(text)}' has no unit; write for example '{example}'"
    bits = _BITS_OR_BYTES.match(unit) or _BITS_OR_BYTES.match(unit[:1].upper() + unit[1:])
    if bits and dimension.startswith("bytes"):
        prefix, per = bits[1], "/s" if dimension == "bytes/s" else ""
        meant = f"{prefix}B{per}' for bytes" + (f" or '{prefix.removesuffix('i')}bit/s' for bits" if per else "")
        return f"{field}: '{echo(text)}' may be bits or bytes; write '{meant}"
    cased = [known for known in DIMENSIONS[dimension] if known.lower() == unit.replace(" ", "").lower()]
    if cased and dimension in _BY_CASE:
        number = str(text).strip().removesuffix(unit).strip()
        rates = [f"{number}/{unit.partition('/')[2]}", f"{number}/min"] if dimension == "1/s" else []
        ways = list(dict.fromkeys([*rates, *(f"{number} {known}".replace(" /", "/") for known in cased)]))
        either = " or ".join(f"'{echo(one)}'" for one in ways)
        return f"{field}: unit '{echo(unit)}' is not known: 'm' is thousandths, 'M' millions; write {either}"
    other = next((name for name, units in DIMENSIONS.items() if name != dimension and unit and unit in units), None)
    if other is not None:
        example = _example(dimension)
        if (dimension, other) == ("s", "tokens/s") and (rate := read(str(text), other)) > 0:
            return f"{field}: '{echo(text)}' is a rate, but a time is expected: write '{show(1 / rate, 's')}' a token"
        return f"{field}: '{echo(text)}' is {other}, but {dimension} is expected: write for example '{example}'"
    usual = _MINUTES.get(unit, "")
    close = nearest(unit, [*filter(None, DIMENSIONS[dimension])], count=1)
    close = (usual,) if usual and usual in DIMENSIONS[dimension] else close
    return f"{field}: unit '{echo(unit)}' is not known; {did_you_mean(close)}write for example '{_example(dimension)}'"


def _example(dimension: str) -> str:
    """A quantity of that dimension, as messages show one."""
    return {
        "bytes": "80 GB (10^9) or 80 GiB (2^30)",
        "bytes/s": "3.35 TB/s",
        "s": "500 ms or 8 h",
        "FLOP": "6 TFLOP",
        "FLOP/s": "989 TFLOP/s",
        "count": "1000",
        "tokens": "100B tokens",
        "tokens/s": "20 tokens/s",
        "1/s": "4/s",
        "W": "700 W",
        "Wh": "12 kWh",
        "USD": "$5000",
        "USD/h": "$2.10/h",
        "fraction": "70 %",
        "USD/kWh": "$0.12/kWh",
        "USD/kW-month": "$184/kW-month",
        "USD/year": "$3250/year",
        "years": "4 years",
    }[dimension]


def show(value: float, dimension: str, *, digits: int = 3) -> str:
    """
    Write a base-unit value for a person, with the given number of significant digits.

    Examples
    --------
    >>> show(85.9e9, "bytes"), show(0.034, "s"), show(3.35e12, "bytes/s"), show(2.1, "USD/h")
    ('80 GiB', '34 ms', '3.35 TB/s', '$2.10/h')
    """
    if dimension.startswith("USD"):
        return f"${_money(value)}" + dimension.removeprefix("USD")
    if dimension == "fraction":
        return f"{_digits(value * 100, digits)} %"
    scale = _SCALES.get(dimension)
    if scale is None:
        return f"{_digits(value, digits)}{'' if dimension == 'count' else ' ' + dimension}"
    size = abs(value)
    unit, factor = next(((unit, factor) for unit, factor in scale if size >= factor * 0.9995), scale[-1])
    number = _digits(value / factor, digits)
    if number == "1":
        unit = {"days": "day", "years": "year"}.get(unit, unit)
    return f"{number}{'' if dimension == '1/s' else ' '}{unit}"


_SCALES: Final[dict[str, tuple[tuple[str, float], ...]]] = {
    "bytes": (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0)),
    "bytes/s": (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0)),
    "s": (("years", 8760 * 3600.0), ("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3),
          ("µs", 1e-6)),
    "FLOP": (("EFLOP", 1e18), ("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("FLOP", 1.0)),
    "FLOP/s": (("PFLOP/s", 1e15), ("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("MFLOP/s", 1e6), ("FLOP/s", 1.0)),
    "tokens": (("T tokens", 1e12), ("B tokens", 1e9), ("M tokens", 1e6), ("k tokens", 1e3), ("tokens", 1.0)),
    "1/s": (("M/s", 1e6), ("k/s", 1e3), ("/s", 1.0), ("/min", 1 / 60), ("/h", 1 / 3600)),
    "W": (("MW", 1e6), ("kW", 1e3), ("W", 1.0)),
    "Wh": (("GWh", 1e9), ("MWh", 1e6), ("kWh", 1e3), ("Wh", 1.0)),
}  # fmt: skip


def _digits(value: float, digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _money(value: float) -> str:
    if value and not 1e-6 <= abs(value) < 1e15:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}" if abs(value) >= 0.1 else _digits(value, 4)


def plural(count: float, noun: str) -> str:
    """
    How many of a thing.

    Examples
    --------
    >>> plural(1, "replica"), plural(1200, "replica")
    ('1 replica', '1,200 replicas')
    """
    return f"{count:,.0f} {noun}{'' if count == 1 else 's'}"


def percent(share: float, digits: int | None = None, *, sign: str = "") -> str:
    """
    A share in words: whole percent, one digit of what is less, three where it is nearly all; or so many decimals.

    Examples
    --------
    >>> percent(0.56), percent(0.999), percent(0.004), percent(0.1234, 1), percent(0.12, sign="+")
    ('56 %', '99.9 %', '0.4 %', '12.3 %', '+12 %')
    """
    value = 100.0 * share
    if digits is not None:
        form = f".{digits}f"
    else:
        form = ".3g" if 99.0 < value < 100.0 else ".1g" if 0.0 < abs(value) < 0.95 else ".0f"
    return f"{value:{sign}{form}} %"


def whole_percent(share: float) -> str:
    """
    A chance in words: whole percent, rounded down so that 79.6 % is not said to reach 80, and never certainty.

    Examples
    --------
    >>> whole_percent(0.8), whole_percent(0.796), whole_percent(0.9999), whole_percent(0.0)
    ('80 %', '79 %', '>99 %', '<1 %')
    """
    if share > 0.995:
        return ">99 %"
    return "<1 %" if share < 0.01 else f"{math.floor(100.0 * share + 1e-2):.0f} %"
