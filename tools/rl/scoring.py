"""How near do predicted steps of reinforcement learning come to published ones?

Rows are NVIDIA NeMo-RL's published GRPO steps on H100; which accelerators generate and how responses are grouped comes
from the same repository's recipes. A row becomes an `RlCase` with the layouts it prints and is predicted as a user's
case would be, once with nothing fitted and once with the two constants of `RlCoefficients`; the fit of those two leaves
one model out at a time as well.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from tonnage.catalog import accelerator
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.case import TrainCaseLayout
from tonnage.domain.layout import Layout
from tonnage.domain.precision import Precision
from tonnage.domain.rl import RlCase, RlCoefficients
from tonnage.questions.rl.candidates import best_of
from tonnage.questions.rl.question import Rl, RlSplit
from tonnage.questions.rl.step import predict_rl
from tonnage.questions.train.search import Place
from tonnage_accuracy.tables import read_table

MODELS: Final = {
    "DeepSeek V3": "deepseek-v3",
    "Qwen3-235B": "qwen3-235b-a22b",
    "Qwen3-30B3A": "qwen3-30b-a3b",
    "Nemotron-3-Nano-30B-A3B": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
}
"""Name in the table -> of the catalogue."""
PROMPT_TOKENS: Final = 150.0
"""Of OpenMathInstruct-2's problems with the recipe's instruction; the rows print the sum with the response. [tokens]"""
STALENESS: Final = {"On policy": 0, "1-step Off": 1, "8-step Off": 8}
_HOST: Final = tuple(0.0005 * i for i in range(41))
_FACTOR: Final = tuple(1.0 + 0.05 * i for i in range(41))


class RlRow(NamedTuple):
    """One published step."""

    cells: dict[str, str]
    recipe: dict[str, str]

    @property
    def measured_s(self) -> float:
        """Of one step. [s]"""
        return float(self.cells["step_time_s"])

    @property
    def model(self) -> str:
        """As the table names it."""
        return self.cells["model"]

    @property
    def agentic(self) -> bool:
        """The software-engineering row: hundreds of turns in sandboxes, whose time nobody prints."""
        return self.cells["algorithm"] == "SWE"

    @property
    def sixteen_bit(self) -> bool:
        return "BF16" in self.cells["system"]

    def label(self) -> str:
        """A few words that name it."""
        kind = "" if self.sixteen_bit else " FP8"
        return f"{self.model}{kind}, {self.cells['policy'].lower()}, {self.cells['gpus']}"


def rl_rows(folder: Path) -> list[RlRow]:
    """The rows of `measurements/`, each with its recipe."""
    recipes = {(r["model"], r["policy"], r["gpus"]): r for r in read_table(folder / "rl_recipes.csv")}
    rows = read_table(folder / "rl_2.csv.gz")
    return [RlRow(row, recipes[row["model"], row["policy"], row["gpus"]]) for row in rows]


def rl_case(row: RlRow) -> RlCase:
    """The row as a user would ask it, with the layouts, splits and batches that were published."""
    cells, recipe = row.cells, row.recipe
    tp, pp = _degrees(cells["gen_tp_pp"])
    train_tp, cp, ep, train_pp, _ = _degrees(cells["train_tp_cp_ep_pp_vpp"])
    return RlCase(
        model=MODELS[row.model],
        accelerator="h100-sxm5-80gb",
        count=int(cells["gpus"]),
        prompts_per_step=int(recipe["prompts_per_step"]),
        responses_per_prompt=int(recipe["responses_per_prompt"]),
        prompt_tokens=PROMPT_TOKENS,
        response_tokens=float(cells["avg_seq"]) - PROMPT_TOKENS,
        max_response_tokens=float(cells["max_seq"]) - PROMPT_TOKENS,
        train_batch=int(cells["train_gbs"]),
        rollout_count=int(recipe["rollout_gpus"]) if recipe["rollout_gpus"] else None,
        staleness=STALENESS[cells["policy"]],
        rollout_layout=Layout(tp=tp, pp=pp),
        rollout_precision=Precision(weights="bf16" if row.sixteen_bit else "fp8"),
        train_layout=TrainCaseLayout(tp=train_tp, cp=cp, ep=ep, pp=train_pp, vpp=1),
        framework=recipe["framework"],
        # The recipes checkpoint every layer, but for the smallest model's.
        recompute="none" if row.model == "Qwen3-30B3A" else "full",
    )


def _degrees(text: str) -> list[int]:
    """ "[1,1,16,16,n/a]" -> degrees; what is not applicable is 1."""
    return [int(part) if part.strip().isdecimal() else 1 for part in text.strip("[]").split(",")]


def errors(rows: Sequence[RlRow], *, loop: RlCoefficients | None = None) -> list[float]:
    """ln(predicted / measured) of each row."""
    found = []
    for row in rows:
        step = predict_rl(rl_case(row), loop=loop).step_s
        assert step is not None, row.label()
        found.append(math.log(step.value / row.measured_s))
    return found


class _Phases(NamedTuple):
    """What a row's step is made of, so that a fit need not predict it a thousand times. [s]"""

    rollout: float
    decode_steps: float
    training: float
    rest: float
    apart: bool
    """Rollout and training run beside each other."""

    def step_s(self, loop: RlCoefficients) -> float:
        """The step under other constants: both enter it linearly. [s]"""
        rollout = self.rollout + self.decode_steps * loop.decode_step_s
        training = self.training * loop.training
        return (max(rollout, training) if self.apart else rollout + training) + self.rest


def _phases(row: RlRow) -> _Phases:
    plain, slower = (_nodes(row, host) for host in (0.0, 1.0))
    return _Phases(
        rollout=plain["rollout"],
        decode_steps=slower["rollout"] - plain["rollout"],
        training=plain["training"],
        rest=plain["weights"],
        apart=bool(STALENESS[row.cells["policy"]]),
    )


def _nodes(row: RlRow, host_s: float) -> dict[str, float]:
    """Seconds of each phase."""
    step = predict_rl(rl_case(row), loop=RlCoefficients(decode_step_s=host_s)).step
    assert step is not None, row.label()
    return {phase.name: phase.value for part in step.parts for phase in (part.parts if part.rule == "max" else (part,))}


def fit_constants(rows: Sequence[RlRow]) -> RlCoefficients:
    """The two constants with the least mean absolute error over the rows: a grid over both."""
    known = [(_phases(row), row.measured_s) for row in rows]

    def missed(loop: RlCoefficients) -> float:
        return sum(abs(math.log(phases.step_s(loop) / measured)) for phases, measured in known)

    tried = (RlCoefficients(decode_step_s=a, training=b) for a, b in itertools.product(_HOST, _FACTOR))
    return min(tried, key=missed)


def left_out(rows: Sequence[RlRow]) -> list[float]:
    """Error of each row with constants that were fitted on the other models."""
    found: dict[int, float] = {}
    for name in dict.fromkeys(row.model for row in rows):
        loop = fit_constants([row for row in rows if row.model != name])
        mine = [i for i, row in enumerate(rows) if row.model == name]
        found.update(zip(mine, errors([rows[i] for i in mine], loop=loop), strict=True))
    return [found[i] for i in range(len(rows))]


def count_ordered(rows: Sequence[RlRow], *, loop: RlCoefficients | None = None) -> tuple[int, int]:
    """Pairs of 16-bit rows of one model whose steps are predicted in the measured order, and all such pairs."""
    kept = [row for row in rows if row.sixteen_bit and not row.agentic]
    missed = dict(zip((row.label() for row in kept), errors(kept, loop=loop), strict=True))
    pairs = [(a, b) for a, b in itertools.combinations(kept, 2) if a.model == b.model]

    def predicted(row: RlRow) -> float:
        return row.measured_s * math.exp(missed[row.label()])

    right = sum((predicted(a) < predicted(b)) == (a.measured_s < b.measured_s) for a, b in pairs)
    return right, len(pairs)


def median_error(found: Sequence[float]) -> float:
    """Median of the absolute relative error. [-]"""
    return median(abs(math.exp(error) - 1.0) for error in found)


def best_split(row: RlRow) -> RlSplit:
    """The split of a row's accelerators with the shortest step, layouts open on both sides."""
    case = rl_case(row)
    model = resolve(MODELS[row.model])
    place = Place(accelerator=accelerator(case.accelerator), count=case.count, per_node=8)
    request = Rl(
        model=MODELS[row.model],
        steps=1,
        response_tokens=case.response_tokens,
        prompt_tokens=case.prompt_tokens,
        max_response_tokens=case.max_response_tokens,
        prompts_per_step=case.prompts_per_step,
        responses_per_prompt=case.responses_per_prompt,
        train_batch=case.train_batch,
        staleness=case.staleness,
        rollout_precision=case.rollout_precision.weights if case.rollout_precision else "bf16",
        framework=case.framework,
        count=case.count,
    )
    found = best_of(request, place, model=model)
    assert found is not None and found.splits, row.label()
    return min(found.splits, key=lambda split: split.step_s)
