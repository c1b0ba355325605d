"""
Reinforcement learning: request, answer, how it is read from what people write, and how the faces ask it.

`tonnage plan rl` returns an `RlPlan`; its JSON is of the same schema as other plans, `kind` is "rl".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.load_fields import read_filters
from tonnage.core.reading import build, need_model, read_fields
from tonnage.domain.answer import Quantity
from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.plan import Configuration, RankedPlan
from tonnage.domain.requests.common import Confidence, Filters, ModelName
from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, Group, accelerator_field, engine_field, training_field
from tonnage.domain.rl import RlCase
from tonnage.domain.train_plan import Budget, Checkpoint, Deadline, Headroom, Optimizer, RunOption, Spares, Validation
from tonnage.errors import BadRequest
from tonnage.questions.question import LLAMA_8B, Form, Question
from tonnage.questions.train.question import check_count
from tonnage.record import SparseRecord


class Rl(SparseRecord, kw_only=True, tag="rl"):
    """So many steps of PPO, GRPO, RLOO or DAPO on a model."""

    model: ModelName
    steps: Annotated[float, Field("steps of rollout and training: 200", high=1e8)]
    response_tokens: Annotated[float, Field("mean length of a response", "tokens", high=1e7)]
    """As generated, cut ones included. [tokens]"""
    max_response_tokens: Annotated[
        float | None, Field("where a response is cut; otherwise four times the mean", "tokens", high=1e7)
    ] = None
    """Where a response is cut. [tokens]"""
    prompt_tokens: Annotated[float, Field("mean length of a prompt", "tokens", high=1e7)] = 512.0
    algorithm: Annotated[Literal["grpo", "rloo", "dapo", "ppo"], training_field("grpo, rloo, dapo or ppo")] = "grpo"
    prompts_per_step: Annotated[int, Field("prompts of one step", high=1e6)] = 64
    responses_per_prompt: Annotated[int, Field("responses of one prompt: a group", high=1e5)] = 16
    train_batch: Annotated[int | None, training_field("responses of an optimizer step; or all", high=1e8)] = None
    """Responses of an optimizer step; absent = all of the step's at once."""
    staleness: Annotated[int, Field("steps a response may be old; 0 = on policy, shared parts", low=-1.0, high=64)] = 0
    """0 = generation and training in turn on the same accelerators; more = beside each other on their own."""
    partial_rollouts: Annotated[bool, Field("responses are carried on over an update of the weights")] = False
    reference: Annotated[bool | None, training_field("a frozen reference is passed too (KL penalty)")] = None
    """Absent = where the algorithm's paper has a KL penalty: all but dapo."""
    kept: Annotated[float | None, Field("share of the responses that is trained on", "fraction", high=1.0)] = None
    """Absent = all, or a third with dynamic sampling (dapo). [-]"""
    turns: Annotated[float, Field("turns of a conversation with an environment", high=1e5)] = 1.0
    environment_s: Annotated[
        float, Field("the environment's answer to one turn", "s", name="environment", low=MAY_BE_NOTHING, high=1e6)
    ] = 0.0
    """The environment's answer to one turn. [s]"""
    observation_tokens: Annotated[
        float, Field("tokens that each of its answers adds", "tokens", low=MAY_BE_NOTHING, high=1e7)
    ] = 0.0
    reward_s: Annotated[
        float, Field("CPU time to score one response", "s", name="reward", low=MAY_BE_NOTHING, high=1e6)
    ] = 0.0
    """CPU time to score or verify one response. [s]"""
    engine: Annotated[str, engine_field("that generates: vllm or sglang", known="engines")] = SERVING_ENGINE
    framework: Annotated[str | None, training_field("that trains: megatron, fsdp, …")] = None
    precision: Annotated[
        str, training_field("what products of training are computed in: bf16, fp8", known="formats")
    ] = "bf16"
    rollout_precision: Annotated[str, engine_field("weights of the rollout engines: bf16, fp8", known="formats")] = (
        "bf16"
    )
    optimizer: Optimizer = "adamw"
    deadline_s: Deadline = None
    budget_usd: Budget = None
    confidence: Confidence = 0.8
    """The plan is the cheapest option that keeps deadline and budget with at least this chance. [-]"""
    filters: Annotated[Filters, Group()] = Filters()
    count: Annotated[int | None, accelerator_field("exactly this many, of both sides", high=1e6)] = None
    rollout_count: Annotated[int | None, accelerator_field("exactly this many that only generate", high=1e6)] = None
    """Only with staleness; absent = the best split is searched."""
    validation: Validation = 0.02
    headroom: Headroom = 0.1
    checkpoint: Checkpoint = "async"
    spares: Spares = None


__all__ = ["Rl"]


class RlSplit(SparseRecord, kw_only=True):
    """One way to divide the first option's accelerators, and what each side takes of a step."""

    rollout: int
    """Accelerators that generate."""
    training: int
    """Accelerators that train."""
    rollout_s: float
    training_s: float
    step_s: float


class RlOption(RunOption, kw_only=True):
    """One accelerator type at one count, split, arranged on both sides; its configuration is the trainer's."""

    case: RlCase
    """What `predict` is asked about it."""
    rollout: Configuration
    """Of one replica that generates."""
    replicas: int
    rollout_accelerators: int
    """The same accelerators as `train_accelerators` where they are shared."""
    train_accelerators: int
    step: Quantity
    """Opened into phases and their parts."""
    rollout_tokens_per_s_per_accelerator: float
    binds: str
    rollout_memory: Quantity

    @property
    def shared(self) -> bool:
        """Whether the same accelerators generate and train in turn."""
        return self.case.rollout_count is None

    @property
    def phases(self) -> tuple[Quantity, ...]:
        """Phases of the step, wherever in its tree they stand."""
        return tuple(phase for part in self.step.parts for phase in (part.parts if part.rule == "max" else (part,)))


class RlPlan(RankedPlan[Rl, RlOption], kw_only=True, tag_field="kind", tag="rl"):
    """The answer to a request for reinforcement learning."""

    splits: tuple[RlSplit, ...] = ()
    """Other splits of the first option's accelerators; empty where they are shared."""
    off_policy: str = ""
    """What responses of one step ago would save, where the request is on policy."""


def rl_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Rl:
    """
    A request for reinforcement learning from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, Rl)
    need_model(given)
    if "steps" not in given:
        raise BadRequest("steps is missing: say how many steps of rollout and training to run, for example 200")
    if "response_tokens" not in given:
        raise BadRequest("response_tokens is missing: say how long a response is on average, for example 2000")
    longest = given.get("max_response_tokens")
    if longest is not None and longest <= given["response_tokens"]:
        raise BadRequest(
            f"max_response_tokens: {longest:,.0f} is not above the mean of {given['response_tokens']:,.0f}; "
            "raise it, or lower response_tokens"
        )
    request = build(Rl, given, additions=additions, filters=read_filters(given, additions))
    stale, count, rollout = request.staleness, request.count, request.rollout_count
    if rollout is not None and not stale:
        raise BadRequest(
            f"rollout_count: {rollout} accelerators that only generate need staleness 1 or more; on policy they would "
            "wait while the others train"
        )
    if rollout is not None and count is not None and rollout >= count:
        raise BadRequest(f"rollout_count: {rollout} of {count} leave none to train; give less than {count}")
    most = request.filters.max_count
    if rollout is not None and most is not None and rollout >= most:
        raise BadRequest(f"rollout_count: {rollout} of at most {most} (max_accelerators) leave none to train")
    if request.partial_rollouts and not stale:
        raise BadRequest("partial_rollouts: on policy every response ends before the update; give staleness 1 or more")
    if request.algorithm != "ppo" and request.responses_per_prompt < 2:
        raise BadRequest("responses_per_prompt: a group needs 2 or more to compare; give 2 or more, or algorithm ppo")
    if request.turns <= 1.0 and (lone := next((n for n in ("environment", "observation_tokens") if given.get(n)), "")):
        raise BadRequest(f"{lone}: a response of one turn has no environment; give turns above 1, or leave {lone} out")
    responses = request.prompts_per_step * request.responses_per_prompt
    if request.train_batch is not None and request.train_batch > responses:
        raise BadRequest(f"train_batch: {request.train_batch} is more than the {responses} responses of a step")
    check_count(request.count, request.filters)
    return request


QUESTIONS = (
    Question(
        name="rl",
        room="rl",
        request=Rl,
        answer=RlPlan,
        help="""
    Accelerators for rollout and for training of MODEL by PPO, GRPO, RLOO or DAPO: split, layouts, time and cost.

    \b
    tonnage plan rl 8B --steps 200 --prompts-per-step 64 --response-tokens 2000 -a H100 --count 16
    """,
        tool="plan_reinforcement_learning",
        form=Form(
            title="Reinforcement learning",
            about="From steps and lengths of rollouts to accelerators for rollout and training, their split and cost.",
            essentials=(
                "model",
                "algorithm",
                "steps",
                "prompts_per_step",
                "responses_per_prompt",
                "prompt_tokens",
                "response_tokens",
                "max_response_tokens",
                "staleness",
                "accelerator",
                "count",
                "deadline",
                "eu",
            ),
            example={
                "model": LLAMA_8B,
                "steps": "200",
                "prompts_per_step": "64",
                "responses_per_prompt": "16",
                "response_tokens": "2000",
                "accelerator": "H100",
                "count": "16",
            },
        ),
    ),
)
