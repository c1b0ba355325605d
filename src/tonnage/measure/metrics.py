"""What does a metrics page say, in our words? Prometheus text in, a `Reading` out; opens nothing.

Names are mapped by what they mean, engine by engine (in `tonnage.engines`): several use one word for two things, and
some change a name between versions (the first name that a page has counts). A page without any known name says nothing.
Times become seconds, sizes bytes, percentages shares of 1.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tonnage.domain.diagnosis import Histogram, Reading
from tonnage.domain.engine_spec import Series
from tonnage.engines.registry import read_table, server_metrics
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.foreign import plain_text

Sample = tuple[str, Mapping[str, str], float]
"""Name, labels, value."""


_MACHINES: Final = read_table("exporters", dict[str, dict[str, Series]])
"""Exporters of a machine, whatever it serves."""

EXPORTERS: Final[Mapping[str, Mapping[str, Series]]] = {
    **{page.name: page.series for page in server_metrics()},
    **_MACHINES,
}
"""Exporter to our names to its own."""

MAX_PAGE_BYTES: Final = 8_000_000
"""A page of some hundred workers has a tenth of it; the format's own parser takes 2 s for as much. [bytes]"""

COUNTERS: Final = frozenset(
    ours for series in EXPORTERS.values() for ours, one in series.items() if one.kind == "counter"
)
"""Names whose growth matters, not their value."""

_WORDS: Final = (
    ("DCGM_FI_DEV_GPU_UTIL", "modelName", "accelerator"),
    ("DCGM_FI_DEV_GPU_TEMP", "modelName", "accelerator"),
    *(label for page in server_metrics() for label in page.labels),
)
"""Series, label, and what its text is."""

_MICROSECONDS: Final = ("(in us)", "(in µs)")
"""Older lists of DCGM's counters have violations in microseconds, newer ones in nanoseconds; the help text says."""


def all_names() -> tuple[str, ...]:
    """Every name on any page that is read here, histograms with their parts."""
    names: list[str] = []
    for series in EXPORTERS.values():
        for one in series.values():
            tails = ("_bucket", "_sum", "_count") if one.kind == "histogram" else ("",)
            names += [name + tail for name in one.names for tail in tails]
    return tuple(dict.fromkeys(names))


def samples_of(page: bytes | str) -> tuple[list[Sample], dict[str, str]]:
    """
    The samples of a page that are known here, and the help of their names.

    Raises
    ------
    BadFact
        The page breaks the format.
    BadRequest
        The parser of `prometheus-client` is not installed.
    """
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        raise BadRequest("reading metrics pages needs prometheus-client: pip install 'tonnage[measure]'") from None
    text = page.decode("utf-8", "replace") if isinstance(page, bytes) else page
    wanted = _prefixes()
    kept = [line for line in text.splitlines() if line.startswith(wanted)]
    samples: list[Sample] = []
    help_of: dict[str, str] = {}
    try:
        for family in text_string_to_metric_families("\n".join(kept) + "\n"):
            for sample in family.samples:
                samples.append((sample.name, sample.labels, sample.value))
                help_of.setdefault(sample.name, family.documentation)
    except (ValueError, IndexError, KeyError) as error:
        raise BadFact(f"the metrics page breaks the format of Prometheus: {str(error)[:120]}") from None
    return samples, help_of


def reading_of(page: bytes | str, *, at_s: float) -> Reading | None:
    """What one page says; nothing when it has no name that is known."""
    if len(page) > MAX_PAGE_BYTES:
        most = f"{MAX_PAGE_BYTES / 1e6:,.0f} MB"
        raise BadFact(f"the metrics page has {len(page) / 1e6:,.0f} MB, at most {most} are read; give one scrape")
    samples, help_of = samples_of(page)
    try:
        return reading_of_samples(samples, at_s=at_s, help_of=help_of)
    except ValueError as error:
        raise BadFact(f"the metrics page breaks the format of Prometheus: {echo(error)}") from None


def reading_of_samples(
    samples: Iterable[Sample], *, at_s: float, help_of: Mapping[str, str] | None = None
) -> Reading | None:
    """The same from samples, wherever they come from."""
    index: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for name, labels, value in samples:
        # The format's parser takes whole numbers of any length.
        if abs(value) <= sys.float_info.max:
            index.setdefault(name, []).append((labels, value))
    values: dict[str, float] = {}
    histograms: dict[str, Histogram] = {}
    engine = None
    for exporter, series in EXPORTERS.items():
        for ours, one in series.items():
            if one.kind == "histogram":
                histogram = _histogram_of(index, one)
                if histogram is None:
                    continue
                histograms[ours] = histogram
            else:
                number = _value_of(index, one, help_of or {})
                if number is None:
                    continue
                values[ours] = number
            engine = engine or (exporter if exporter not in _MACHINES else None)
    if not values and not histograms:
        return None
    names: dict[str, str] = {}
    for name, label, ours in _WORDS:
        text = next((labels[label] for labels, _ in index.get(name, ()) if labels.get(label)), None)
        if text is not None:
            names.setdefault(ours, plain_text(text, where=f"the metrics page: {label}"))
    return Reading(at_s=at_s, engine=engine, values=values, histograms=histograms, names=names)


@functools.cache
def _prefixes() -> tuple[str, ...]:
    names = {name for series in EXPORTERS.values() for one in series.values() for name in one.names}
    names |= {name for name, _, _ in _WORDS}
    return tuple(dict.fromkeys(lead + name for name in sorted(names) for lead in ("", "# HELP ", "# TYPE ")))


def _choose_name(index: Mapping[str, Sequence[Any]], names: Sequence[str], tail: str = "") -> str | None:
    """The first name that is there; the parser gives a counter the ending that its page may lack."""
    spelled = (form for name in names for form in (name, name + "_total"))
    return next((form for form in spelled if form + tail in index), None)


def _value_of(
    index: Mapping[str, Sequence[tuple[Mapping[str, str], float]]], one: Series, help_of: Mapping[str, str]
) -> float | None:
    """A gauge or counter in our unit, its labels joined as the series says; None where the page lacks it."""
    name = _choose_name(index, one.names)
    if name is None:
        return None
    found = [value for labels, value in index[name] if all(labels.get(key) == text for key, text in one.where)]
    if not found:
        return None
    scale = one.scale
    if scale == 1e-9 and any(unit in help_of.get(name, "") for unit in _MICROSECONDS):
        scale = 1e-6
    whole = max(found) if one.over == "most" else sum(found) / (len(found) if one.over == "mean" else 1)
    return whole * scale


def _histogram_of(index: Mapping[str, Sequence[tuple[Mapping[str, str], float]]], one: Series) -> Histogram | None:
    """A histogram in our unit, summed over its labels; None where the page lacks it."""
    name = _choose_name(index, one.names, "_count")
    if name is None or name + "_sum" not in index:
        return None
    buckets: dict[float, float] = {}
    for labels, value in index.get(name + "_bucket", ()):
        bound = float(labels.get("le", "inf"))
        if math.isfinite(bound):
            buckets[bound] = buckets.get(bound, 0.0) + value
    return Histogram(
        count=sum(value for _, value in index[name + "_count"]),
        total=sum(value for _, value in index[name + "_sum"]) * one.scale,
        buckets=tuple(sorted((bound * one.scale, count) for bound, count in buckets.items())),
    )
