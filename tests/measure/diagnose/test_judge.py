"""Laws of the rules: whatever is known, they answer; what is not known gives no verdict; causes hide their effects."""

import types
import typing
from string import Formatter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.domain.diagnosis import Evidence, LoadLevel, Verdict
from tonnage.domain.train_measurement import StepTimes
from tonnage.measure.diagnose import device, row, rules
from tonnage.measure.diagnose.row import NAMES, SHARES, Limit, Rule
from tonnage.measure.diagnose.sources import CAUSES, RULES, judge

ROWS = [rule for rules_of_kind in RULES.values() for rule in rules_of_kind if isinstance(rule, Rule)]
HINTS = typing.get_type_hints(Evidence)


def _is_number(name: str) -> bool:
    hint = HINTS[name]
    return isinstance(hint, types.UnionType) and float in typing.get_args(hint)


NUMBERS = sorted(name for name in Evidence.__struct_fields__ if _is_number(name))
POSITIVE = st.floats(min_value=0.0, max_value=1e12, allow_nan=False)
LEVELS = st.lists(
    st.builds(
        LoadLevel,
        level=st.floats(0.1, 1e4),
        requests_per_s=st.floats(0.01, 1e5),
        p95_s=st.floats(1e-4, 1e3),
        requests=st.just(100.0),
    ),
    max_size=5,
)
PARTS = st.none() | st.builds(
    StepTimes, **{name: st.none() | st.floats(0.0, 10.0) for name in StepTimes.__struct_fields__}
)


@given(
    st.lists(st.sampled_from(("serving", "training", "accelerator", "host")), unique=True),
    st.dictionaries(st.sampled_from(NUMBERS), POSITIVE),
    LEVELS,
    PARTS,
)
def test_any_evidence_is_judged_and_each_verdict_has_numbers(
    kinds: list[str], numbers: dict[str, float], levels: list[LoadLevel], parts: StepTimes | None
) -> None:
    found = judge(Evidence(kinds=tuple(kinds), levels=tuple(levels), parts=parts, **numbers))
    assert found.sentence.endswith(".") and len({verdict.name for verdict in found.verdicts}) == len(found.verdicts)
    for verdict in found.verdicts:
        assert verdict.facts and verdict.next_step
    assert msgspec.json.decode(msgspec.json.encode(found))["schema"] == "tonnage.diagnosis/1"


@given(st.floats(0.0, 1.0), st.floats(0.0, 1000.0), st.floats(0.0, 1.0))
def test_utilisation_alone_gives_no_verdict(utilisation: float, power_w: float, memory: float) -> None:
    seen = Evidence(
        kinds=("accelerator",),
        samples=60,
        window_s=3600.0,
        utilisation=utilisation,
        power_w=power_w,
        memory_used_share=memory,
        accelerator="h100-sxm5-80gb",
        peak_flop_per_s=1e15,
        peak_memory_bytes_per_s=3e12,
    )
    found = judge(seen)
    assert not found.verdicts and {one.verdict for one in found.missing} == {
        "throttled",
        "compute-bound or bandwidth-bound",
    }


def test_nothing_known_gives_no_verdict() -> None:
    for kind in ("serving", "training", "accelerator", "host"):
        found = judge(Evidence(kinds=(kind,)))
        assert not found.verdicts and (found.missing or kind == "host")


def test_an_effect_is_not_said_beside_its_cause() -> None:
    seen = Evidence(
        kinds=("serving",),
        samples=9,
        requests=100.0,
        kv_used_most=0.99,
        preemptions=20.0,
        waiting=9.0,
        running=30.0,
        queue_s=4.0,
        ttft_s=5.0,
    )
    names = [verdict.name for verdict in judge(seen).verdicts]
    assert names == ["memory-capacity bound"]
    alone = judge(msgspec.structs.replace(seen, kv_used_most=0.3, preemptions=0.0))
    assert [verdict.name for verdict in alone.verdicts] == ["queueing"]
    assert not {effect for effects in CAUSES.values() for effect in effects} & set(CAUSES) - {
        "memory-capacity bound",
        "over-provisioned",
    }


def test_thresholds_say_where_they_come_from() -> None:
    known = {limit for module in (row, rules, device) for limit in vars(module).values() if isinstance(limit, Limit)}
    known |= {limit for rule in ROWS for limit in rule.facts.values() if limit is not None}
    assert len(known) > 20 and all(limit.value > 0 and len(limit.why) > 15 for limit in known)


@pytest.mark.parametrize("rule", ROWS, ids=lambda rule: rule.said[:40])
def test_a_row_names_values_that_there_are(rule: Rule) -> None:
    stated = {*Evidence.__struct_fields__, *StepTimes.__struct_fields__, *SHARES}
    named = {name for _, name, _, _ in Formatter().parse(rule.said) if name}
    assert named | rule.facts.keys() | set(filter(None, [rule.gain])) <= stated
    assert rule.facts.keys() <= NAMES.keys() and set(rule.by) <= rule.facts.keys()
    assert any(rule.facts.values()) and bool(rule.needs) == bool(rule.how)


def test_each_rule_is_pure() -> None:
    seen = Evidence(kinds=("serving", "training", "accelerator"), tensor_active=0.9, dram_active=0.2)
    for rules_of_kind in RULES.values():
        for rule in rules_of_kind:
            first, second = rule(seen), rule(seen)
            assert first == second and (first is None or isinstance(first, Verdict) or first.how)
