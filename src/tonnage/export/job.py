"""
What a target needs to know of a plan to train, or of reinforcement learning: read once, checked, counted out.

Learning rate, reward and data are no part of a plan; files name where they go and leave them to the user.
"""

from __future__ import annotations

import math
from itertools import groupby, islice
from typing import Final

from tonnage.domain.layout import TrainLayout
from tonnage.domain.rl import RlCase
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.errors import BadRequest
from tonnage.export.deployment import checkpoint_of, offer_line
from tonnage.export.target import Target, files_of, known_targets, names
from tonnage.export.text import Fields, label, safe_name
from tonnage.questions.rl.question import RlOption, RlPlan
from tonnage.record import Record

FLASH_FROM: Final = 8
"""First compute capability (major) that FlashAttention-2 runs on."""
USUAL_RANK: Final = 16
"""Of adapters, where none is asked for."""
ALPHA_PER_RANK: Final = 2
"""LoRA's alpha over its rank: it scales the update and costs nothing."""
KEPT: Final = 10
"""Checkpoints that are kept over a run beside the newest: those of large models take a terabyte each; assumed."""
DATA_PARALLEL: Final = {"tp": 1, "pp": 1, "cp": 1, "ep": 1}
"""Degrees of targets that split the batch and shard states alone."""


class Job(Record, kw_only=True):
    """One option, ready to be written down."""

    model: str
    """The checkpoint to start from: an id on the Hugging Face Hub."""
    name: str
    method: str
    """pretrain, full, lora, qlora, dora."""
    accelerator: str
    count: int
    nodes: int
    per_node: int
    layout: TrainLayout
    micro_batch: int
    accumulation: int
    """Micro-batches of one optimizer step."""
    seq_len: int
    packed: bool
    precision: str
    optimizer: str
    recompute: str
    rank: int
    """Of adapters."""
    objective: str
    """Of fine-tuning: sft, or a preference."""
    reference: str
    """How a preference's reference model is kept; empty = there is none."""
    steps: int
    checkpoint_steps: int
    asynchronous: bool
    spot: bool
    shape: Fields
    """Layers, widths and vocabulary, where the plan knows them; empty otherwise."""
    widths: dict[str, int] = {}
    """Layers, width and vocabulary of any decoder, also where its parts are of several kinds."""
    family: str = ""
    """Of the catalogue's model; empty where it is not known."""
    rotary_base: float | None = None
    """Base of the rotary positions, where the plan knows it."""
    decodes: bool = True
    """A causal language model, as far as the plan knows."""
    capability: str = ""
    """CUDA's compute capability, where the accelerator has one and it is known."""
    vendor: str = ""
    """Of the accelerator; empty = not known."""
    provider: str
    region: str
    lines: tuple[str, ...]
    """The plan in a few sentences, for the head of a file."""

    @property
    def global_batch(self) -> int:
        """Sequences per optimizer step."""
        return self.micro_batch * self.accumulation * self.layout.dp

    @property
    def retained_steps(self) -> int:
        """Every so many steps a checkpoint is kept for good: a whole number of those between two, at most `KEPT`."""
        return self.checkpoint_steps * math.ceil(self.steps / self.checkpoint_steps / KEPT)

    @property
    def stage_layout(self) -> str:
        """
        Which layers each stage of the pipeline holds, as Megatron Core writes it; empty where they divide evenly, or
        their number is not known.

        The embedding (E) and the loss (L) count as a layer each where stages differ, and the ends are filled first.
        Source: megatron-core 0.19.2, megatron/core/transformer/pipeline_parallel_layer_layout.py.
        """
        layers, stages = {**self.widths, **self.shape}.get("num_layers", 0), self.layout.pp * self.layout.vpp
        if self.layout.pp == 1 or layers % stages == 0:
            return ""
        least, more = divmod(layers + 2, stages)
        longer = {*sorted(range(stages), key=lambda stage: (min(stage, stages - 1 - stage), -stage))[:more]}
        row = iter("E" + "t" * layers + "L")
        held = ["".join(islice(row, least + (stage in longer))) for stage in range(stages)]
        runs = ((stage, len([*same])) for stage, same in groupby(held[:-1]))
        return "".join(f"({stage}|)*{count}" if count > 1 else f"{stage}|" for stage, count in runs) + held[-1]

    @property
    def alpha(self) -> int:
        """Of adapters: scales their update."""
        return ALPHA_PER_RANK * self.rank

    @property
    def sharded(self) -> bool:
        """States are spread over several ranks."""
        return self.count > 1 and self.layout.sharding != "none"

    @property
    def network(self) -> str:
        """The model's name as frameworks list networks: of the base, without its owner."""
        return self.model.rsplit("/", 1)[-1].removesuffix("-Instruct").removesuffix("-Base").removeprefix("Meta-")

    @property
    def adapters(self) -> bool:
        """Only small matrices beside the weights are trained."""
        return self.method in ("lora", "qlora", "dora")


def check_job(made: Job, target: Target, *, kind: str) -> None:
    """
    Refuse a run that a target's files cannot say.

    Raises
    ------
    BadRequest
        It has no backend for the planned accelerator, the model decodes no text and it trains nothing else, or a
        parallel degree is larger than it takes; the targets whose files can say the run are named.
    """
    if not (lacks := _lacks(made, target)):
        return
    able = [
        name
        for name, other in known_targets().items()
        if kind in other.kinds and made.objective in other.objectives and not _lacks(made, other) and _says(name, made)
    ]
    unlike = bool(made.vendor) and made.vendor not in target.vendors
    planned = f"plan with --{f'vendor {target.vendors[0]}' if unlike else 'framework hf'}"
    elsewhere = f"export to {' or '.join(able)}, or " if able else ""
    raise BadRequest(f"{lacks}; {elsewhere}{planned}")


def _lacks(made: Job, target: Target) -> str:
    """What the run has and the target's files cannot say, as the beginning of a sentence; empty where they can."""
    if made.vendor and made.vendor not in target.vendors:
        return f"{target.title} does not run on {made.accelerator} ({made.vendor})"
    if target.text_only and not made.decodes:
        return f"{target.title} trains causal language models, and {made.model} is none"
    for name, most in target.most.items():
        if (value := getattr(made.layout, name)) > most:
            return f"{target.title} cannot do {name} {value} in these files"
    return ""


def _says(name: str, made: Job) -> bool:
    """Whether a framework's target writes the run; those that carry another's files are not asked."""
    if known_targets()[name].carries:
        return False
    try:
        files_of(name, made)
    except BadRequest:
        return False
    return True


def job(plan: TrainPlan, option: TrainOption) -> Job:
    """
    The option as targets read it.

    Raises
    ------
    BadRequest
        The plan names no checkpoint that can be loaded, or one that no file can hold safely.
    """
    configuration, bill, request = option.configuration, option.bill, plan.request
    per_node = max(1, min(configuration.count, int(bill.accelerators_per_instance)))
    step_s, steps = option.step_s.value, math.ceil(option.run.steps)
    model = safe_name(checkpoint_of(plan, required=plan.kind != "train"), what="model")
    return Job(
        model=model,
        name=label(model),
        method=configuration.method,
        accelerator=configuration.accelerator,
        count=configuration.count,
        nodes=math.ceil(configuration.count / per_node),
        per_node=per_node,
        layout=configuration.layout,
        micro_batch=configuration.micro_batch,
        accumulation=configuration.num_micro_batches,
        seq_len=configuration.seq_len,
        packed=getattr(request, "packed", True),
        precision=configuration.precision,
        optimizer=configuration.optimizer,
        recompute=configuration.recompute,
        rank=getattr(request, "lora_rank", None) or USUAL_RANK,
        objective=getattr(request, "objective", "sft"),
        reference=getattr(request, "reference", ""),
        steps=steps,
        checkpoint_steps=max(1, min(steps, round(option.run.checkpoint_interval_s / step_s))),
        asynchronous=request.checkpoint == "async",
        spot=bill.term == "spot",
        shape=dict(plan.model.get("shape", {})),
        widths=dict(plan.model.get("widths", {})),
        family=str(plan.model.get("family", "")),
        rotary_base=plan.model.get("rotary_base"),
        decodes=plan.model.get("decodes", True) is not False,
        capability=str(plan.model.get("compute_capability", "")),
        vendor=str(plan.model.get("vendor") or names(configuration.accelerator).vendor),
        provider=bill.provider,
        region=bill.region,
        lines=_lines(plan, option, model),
    )


def builds_as_planned(made: Job, built: tuple[int, ...]) -> bool:
    """
    Whether a framework's own network has the planned widths.

    Parameters
    ----------
    built : tuple of int
        Layers, width, heads, key-value heads, feed-forward width (of an expert), experts (0 = none).
    """
    known = {"num_query_groups": made.shape.get("num_attention_heads", 0), **made.shape}
    widths = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size", "num_experts")
    return built == tuple(known.get(name, 0) for name in widths)


def attention_of(made: Job) -> str:
    """
    transformers' name of the attention that runs: FlashAttention-2 needs NVIDIA's Ampere (8.0) or newer, or AMD's CDNA.

    Source: github.com/Dao-AILab/flash-attention, "Installation and features".
    """
    major = int(made.capability.partition(".")[0]) if made.capability[:1].isdigit() else None
    flash = made.vendor == "amd" if major is None else major >= FLASH_FROM
    return "flash_attention_2" if flash else "sdpa"


def _lines(plan: TrainPlan, option: TrainOption, model: str) -> tuple[str, ...]:
    hours = option.run.wall_s.value / 3600
    return (
        f"Plan of {plan.provenance.made}: {option.configuration.method} of {model} on {option.configuration.label()}.",
        f"{offer_line(option.bill)}, about {hours:,.1f} h, ${option.cost.value:,.0f} in all.",
        f"Step {option.step_s.value:.3g} s; checkpoint every {option.run.checkpoint_interval_s / 60:,.0f} min.",
        "Learning rate, schedule and data are yours; the plan does not depend on them.",
    )


SHARDED: Final = frozenset({"fsdp", "hsdp", "zero3"})
CACHE_SHARE: Final = {True: 0.6, False: 0.85}
"""Of an accelerator's memory that the engine takes: shared with a trainer whose states are parked, and alone. [-]"""


class RlJob(Record, kw_only=True):
    """One option, ready to be written down."""

    model: str
    name: str
    case: RlCase
    software: str
    """Family of the trainer that the times are of."""
    layout: TrainLayout
    sharded: bool
    """The trainer shards weights over all ranks, instead of splitting tensors and layers."""
    recompute: str
    per_node: int
    nodes: int
    rollout_nodes: float
    """Of them, those that only generate, in parts where a node is shared; 0 where both sides share all."""
    seq_len: int
    """Of a packed sequence, with room for a prompt and the longest answer. [tokens]"""
    steps: int
    """Of generation, each with one or more of the optimizer."""
    train_batch: int
    """Responses of one step of the optimizer."""
    memory_share: float
    """Of an accelerator's memory that the generating engine takes. [-]"""
    checkpoint_steps: int
    lines: tuple[str, ...]

    @property
    def generated(self) -> int:
        """Groups generated for each that DAPO keeps; three where the plan does not say."""
        return 3 if self.case.kept is None else round(1 / self.case.kept)

    @property
    def splits_nodes(self) -> bool:
        """Whether a machine of several is shared between the sides."""
        return self.case.rollout_count is not None and not self.whole_nodes and self.nodes > 1

    @property
    def whole_nodes(self) -> bool:
        """Whether both sides have whole machines."""
        return self.rollout_nodes == int(self.rollout_nodes)


def rl_job(plan: RlPlan, option: RlOption) -> RlJob:
    """
    The option as targets read it.

    Raises
    ------
    BadRequest
        The plan names no checkpoint that can be loaded, or one that no file can hold safely.
    """
    case, configuration, bill = option.case, option.configuration, option.bill
    per_node = max(1, min(case.count, int(bill.accelerators_per_instance)))
    model = safe_name(checkpoint_of(plan), what="model")
    if case.turns > 1:
        raise BadRequest("turns: these files start single-turn rollouts; an environment's own files start its turns")
    return RlJob(
        model=model,
        name=label(model),
        case=case,
        software=configuration.software,
        layout=configuration.layout,
        sharded=configuration.layout.sharding in SHARDED,
        recompute=configuration.recompute,
        per_node=per_node,
        nodes=math.ceil(case.count / per_node),
        rollout_nodes=(case.rollout_count or 0) / per_node,
        seq_len=configuration.seq_len,
        steps=math.ceil(option.run.steps),
        train_batch=case.train_batch or case.responses,
        memory_share=CACHE_SHARE[option.shared],
        checkpoint_steps=max(1, round(option.run.checkpoint_interval_s / option.step_s.value)),
        lines=(
            f"Plan of {plan.provenance.made}: {case.algorithm} of {model} on {case.count} x {case.accelerator}.",
            f"{offer_line(bill)}, about {option.run.wall_s.value / 3600:,.1f} h, ${option.cost.value:,.0f} in all.",
            f"Step {option.step_s.value:.3g} s. Reward, data and learning rate are yours, and no part of the plan.",
        ),
    )
