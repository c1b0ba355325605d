"""Every rule asked, consequences left to their causes, and one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.domain.diagnosis import DIAGNOSIS_SCHEMA, Diagnosis, Evidence, Missing, Verdict
from tonnage.measure.diagnose import device, serving, training
from tonnage.measure.diagnose.limits import Rule

__all__ = ["RULES", "judge"]

RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "serving": serving.RULES,
    "training": training.RULES,
    "accelerator": device.RULES,
}
"""Rules by what they judge; the accelerator's are asked of whatever runs on one."""

CAUSES: Final[Mapping[str, tuple[str, ...]]] = {
    "memory-capacity bound": ("queueing",),
    "fragmentation": ("memory-capacity bound",),
    "input-bound": ("under-utilised", "over-provisioned"),
    "communication-bound": ("under-utilised",),
    "straggler": ("under-utilised",),
    "over-provisioned": ("under-utilised",),
}
"""What explains what: a verdict on the right is not given beside the one on the left."""

FIRST: Final = ("client-bound", "failing", "throttled", "regression")
"""Given before all others: they make the rest look different."""


def judge(evidence: Evidence) -> Diagnosis:
    """
    What limits the system, by all rules that apply to what the evidence is about.

    Examples
    --------
    >>> judge(Evidence(kinds=("accelerator",), utilisation=1.0)).verdicts
    ()
    """
    found: list[Verdict] = []
    missing: list[Missing] = []
    for kind, rules in RULES.items():
        if kind not in evidence.kinds and not (kind == "accelerator" and evidence.kinds):
            continue
        for rule in rules:
            said = rule(evidence)
            if isinstance(said, Verdict):
                found.append(said)
            elif said is not None and said not in missing:
                missing.append(said)
    explained = {effect for verdict in found for effect in CAUSES.get(verdict.name, ())}
    verdicts = {verdict.name: verdict for verdict in reversed(found) if verdict.name not in explained}
    ordered = sorted(verdicts.values(), key=_rank)
    said_of = {verdict.name for verdict in ordered}
    return Diagnosis(
        schema=DIAGNOSIS_SCHEMA,
        sentence=_sentence(ordered, missing, evidence),
        sources=evidence.sources,
        verdicts=tuple(ordered),
        missing=tuple(one for one in missing if one.verdict not in said_of),
        evidence=evidence,
    )


def _rank(verdict: Verdict) -> tuple[int, float]:
    early = FIRST.index(verdict.name) if verdict.name in FIRST else len(FIRST)
    return early, -(verdict.gain or 0.0)


def _sentence(verdicts: list[Verdict], missing: list[Missing], evidence: Evidence) -> str:
    if verdicts:
        others = f" Also: {', '.join(verdict.name for verdict in verdicts[1:])}." if len(verdicts) > 1 else ""
        return f"{verdicts[0].name[:1].upper()}{verdicts[0].name[1:]}: {verdicts[0].sentence}{others}"
    if missing:
        alone = (
            " Utilisation alone tells nothing: it counts time with any kernel."
            if (evidence.utilisation is not None and evidence.tensor_active is None)
            else ""
        )
        return f"No verdict: {len(missing)} questions lack evidence.{alone}"
    return "Nothing limits it by any rule here."
