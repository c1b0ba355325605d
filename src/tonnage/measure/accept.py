"""
Did I get what I rent? What every device reached (`accept_run`), held against the others and against good ones.

A rate fails where it is further below what is expected than good parts differ from each other, the reference from its
kind and the rounds among themselves, at a level that all findings together share: one false alarm in fifty boxes. Where
noise hides a tenth, the finding says that it is not told.

Spreads between good parts:
- products 1.5 %: 8 % from whisker to whisker on average (Sinha et al. 2022, arXiv 2208.11035, five centres, 18,800
  hours), which holds 99.3 % of a normal spread, 5.4 standard deviations. It is of power-limited products; copies, of
  which no such study is known here, differ by no more and get the same;
- exchanges 2.2 %: 400 to 450 GB/s of large all-reduces on good H100 nodes (saturncloud.io, crusoe-nccl-cluster-
  validation; 480 at voltagepark's), again from whisker to whisker.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Final, Literal, NamedTuple

import msgspec

from tonnage.domain.acceptance import ACCEPT_SCHEMA, Acceptance, Finding, Probe
from tonnage.errors import BadFact, echo, echo_path
from tonnage.units import percent

SPREADS: Final = {"products": 0.015, "memory": 0.015, "collective": 0.022}
"""Standard deviations between good parts, as shares. [-]"""
FALSE: Final = 0.01
"""Of good boxes, those in which some finding fails: half of what is promised, as seven rounds tell noise badly. [-]"""
TOLD: Final = 0.10
"""A shortfall that a finding must be able to see, or it is none. [-]"""


class Expected(NamedTuple):
    """What a good part reaches, and of how many good parts that is the mean."""

    value: float
    parts: float
    source: str


def judge(probes: Sequence[Probe], expected: Mapping[str, Expected]) -> tuple[Finding, ...]:
    """
    Every device against the other devices (three and more of them) and against what is expected; all of them together
    against that alone.

    Parameters
    ----------
    probes : sequence of Probe
        What was reached; probes without a known spread are told, not judged.
    expected : mapping
        By name and size of a probe ("products", "collective 16.8 MB"). Absent = nothing is known.
    """
    pending = [*_comparisons(probes, expected)]
    bound = NormalDist().inv_cdf(1.0 - FALSE / max(1, len(pending)))
    return tuple(_finding(one, bound) for one in pending)


class _Comparison(NamedTuple):
    what: str
    unit: str
    value: float
    expected: float
    sigma: float
    against: str


def _comparisons(probes: Sequence[Probe], expected: Mapping[str, Expected]) -> Iterator[_Comparison]:
    """Each rate beside what it is held against, with the standard deviation of their ratio where both are good."""
    for probe in probes:
        spread = SPREADS.get(probe.name)
        if spread is None:
            continue
        found = [(statistics.median(rounds), _noise(rounds)) for rounds in probe.rounds]
        known = expected.get(key_of(probe))
        for place, (value, noise) in enumerate(found):
            others = [other for at, (other, _) in enumerate(found) if at != place]
            alone = len(found) == 1
            name = f"{key_of(probe)}{'' if alone else f' of device {place}'}"
            if known is not None:
                sigma = math.hypot(spread, noise, spread / math.sqrt(known.parts))
                yield _Comparison(name, probe.unit, value, known.value, sigma, known.source)
            if len(others) >= 2:
                # A median's own deviation is 1.25 times that of a mean.
                sigma = math.hypot(spread, noise, 1.25 * math.hypot(spread, noise) / math.sqrt(len(others)))
                yield _Comparison(name, probe.unit, value, statistics.median(others), sigma, "the other devices")
        if known is not None and len(found) > 1:
            mean = statistics.fmean(value for value, _ in found)
            noise = math.sqrt(sum(each * each for _, each in found)) / len(found)
            sigma = math.hypot(spread / math.sqrt(len(found)), noise, spread / math.sqrt(known.parts))
            yield _Comparison(f"{key_of(probe)} of all", probe.unit, mean, known.value, sigma, known.source)


def _noise(rounds: Sequence[float]) -> float:
    """Standard deviation of the median of some rounds, as a share of it, by their median deviation."""
    middle = statistics.median(rounds)
    deviation = 1.4826 * statistics.median(abs(value - middle) for value in rounds)
    return 1.25 * deviation / math.sqrt(len(rounds)) / middle if middle > 0 else math.inf


def _finding(one: _Comparison, bound: float) -> Finding:
    """The verdict on a comparison: a shortfall beyond the bound fails, one that noise would hide is not told."""
    short = 1.0 - one.value / one.expected
    allowed = bound * one.sigma
    verdict: Literal["pass", "fail", "not told"] = "pass"
    if short > allowed:
        verdict = "fail"
    elif allowed > TOLD:
        verdict = "not told"
    return Finding(
        what=one.what,
        value=one.value,
        expected=one.expected,
        unit=one.unit,
        short=short,
        allowed=allowed,
        against=one.against,
        verdict=verdict,
    )


def key_of(probe: Probe) -> str:
    """
    What a probe's expected rate is known by: its name, with the size of an exchange.

    Examples
    --------
    >>> key_of(Probe(name="collective", of="64 kB", unit="bytes/s", rounds=()))
    'collective 64 kB'
    """
    return f"{probe.name} {probe.of}" if probe.name == "collective" else probe.name


def expected_of(probes: Sequence[Probe], *, source: str) -> dict[str, Expected]:
    """What an earlier acceptance of good ones reached, as what others are held against."""
    return {
        key_of(probe): Expected(
            statistics.fmean(statistics.median(rounds) for rounds in probe.rounds), len(probe.rounds), source
        )
        for probe in probes
        if probe.rounds
    }


def read_reference(path: str | Path) -> dict[str, Expected]:
    """
    What an acceptance that was kept reached.

    Raises
    ------
    BadFact
        The file holds none, or one that failed.
    """
    try:
        found = msgspec.json.decode(Path(path).read_bytes(), type=Acceptance)
    except (OSError, msgspec.DecodeError) as error:
        raise BadFact(f"{echo_path(path)}: is no acceptance that --out wrote: {echo(error)}") from None
    if not found.feasible or found.schema != ACCEPT_SCHEMA:
        raise BadFact(f"{echo_path(path)}: {echo(found.sentence)}; a reference is of good ones")
    return expected_of(found.probes, source=f"{found.name} of {found.date}")


def accepted(
    probes: tuple[Probe, ...],
    expected: Mapping[str, Expected],
    *,
    reasons: tuple[str, ...] = (),
    usd_per_month: float | None = None,
) -> Acceptance:
    """
    The verdict on what the probes reached.

    Parameters
    ----------
    probes : tuple of Probe
        Of `accept_run.run_probes`.
    expected : mapping
        Of `read_reference`, empty without one.
    reasons : tuple of str, optional
        What fails it whatever the rates: a lowered power limit, heat.
    usd_per_month : float, optional
        What is paid. [USD/month]
    """
    findings = judge(probes, expected)
    failed = sorted((one for one in findings if one.verdict == "fail"), key=lambda one: -one.short)
    unsure = sum(one.verdict == "not told" for one in findings)
    short = failed[0].short if failed else 0.0
    worth = usd_per_month * short if usd_per_month is not None and failed else None
    notes = []
    if not expected:
        notes.append("no --reference of good ones: what all devices share (a power limit, a slow link) is not judged")
    if not findings:
        notes.append("fewer than three devices and no --reference: nothing is judged; keep this result with --out")
    if unsure:
        notes.append(
            f"{unsure} of {len(findings)} findings cannot see a tenth: the rounds differ too much; try again alone"
        )
    return Acceptance(
        schema=ACCEPT_SCHEMA,
        sentence=_sentence(failed, findings, reasons=reasons, worth=worth),
        feasible=not failed and not reasons and (not findings or unsure < len(findings)),
        name="",
        device="",
        count=0,
        probes=probes,
        findings=findings,
        reasons=reasons,
        short=short,
        usd_per_month=usd_per_month,
        worth_usd_per_month=worth,
        duration_s=0.0,
        notes=tuple(notes),
    )


def _sentence(
    failed: Sequence[Finding], findings: Sequence[Finding], *, reasons: Sequence[str], worth: float | None
) -> str:
    """The verdict in a line: the worst finding, and what it is worth."""
    if failed:
        first = failed[0]
        money = f", worth ${worth:,.0f} a month" if worth is not None else ""
        more = f"; {len(failed) - 1} more" if failed[1:] else ""
        below = f"{percent(first.short)} below {first.against} ({percent(first.allowed)} may be)"
        return f"Not accepted: {first.what} {below}{money}{more}."
    if reasons:
        return f"Not accepted: {reasons[0]}."
    if not findings:
        return "Measured, and held against nothing."
    told = [one for one in findings if one.verdict == "pass"]
    if not told:
        return "Not judged: the rounds differ too much for a shortfall of a tenth to be seen."
    least = max(one.allowed for one in told)
    seen = f"a shortfall of {percent(least)} would have been seen"
    return f"Accepted: {len(told)} of {len(findings)} rates are those of good parts; {seen}."
