"""What a training request comes to: sequences, steps, batch, method; one shape for pre-training and fine-tuning.

Whatever the request leaves open is chosen here and listed in `assumed`, so that nobody takes a choice for a fact.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import msgspec

from tonnage.catalog import model_name
from tonnage.core.header import Context
from tonnage.domain.case import TrainCase
from tonnage.domain.model import Model
from tonnage.domain.train_plan import FineTune, Train
from tonnage.domain.training import OBJECTIVES
from tonnage.errors import BadRequest
from tonnage.physics.known import Known
from tonnage.physics.parameters import parameters
from tonnage.record import Record
from tonnage.units import show

PATIENCE_S: Final = {"train": 30 * 86400.0, "finetune": 86400.0}
"""Longest run that is called good when no deadline is given: a month, a day. Assumed, and said so. [s]"""

_SEQ_LEN: Final = 4096
"""Of pre-training where the request says none: Llama 2, DeepSeek-V3, OLMo 2. [tokens]"""

PLENTY: Final = 16
"""Sequences of a step for each accelerator, beyond which a larger batch hides no bubble or exchange worth a search."""

_FINE_TUNE_BATCH: Final = 32
"""Sequences per step: BERT used 16 or 32 (arXiv 1810.04805, A.3), QLoRA 16 (arXiv 2305.14314, table 9)."""

_IMAGE_BATCH: Final = 256
"""Images per step: ResNet's on ImageNet (arXiv 1512.03385, 3.4)."""


class Job(Record, kw_only=True):
    """The work, whoever runs it."""

    kind: Literal["train", "finetune"]
    case: TrainCase
    """Its step as `predict` is asked, of no accelerator yet: method, formats, optimizer, adapters, objective."""
    sequences: float
    """Through the model in the whole run, repeated epochs counted."""
    seq_len: int
    global_batch: int
    """Sequences per optimizer step: as stated, else the usual number, which a search may raise."""
    largest_batch: int | None = None
    """Most sequences per step that a search may take; absent = the batch is stated."""
    assumed: tuple[str, ...] = ()

    def steps_of(self, global_batch: int) -> float:
        """Optimizer steps of the run at so many sequences a step."""
        return max(1.0, math.ceil(self.sequences / global_batch))

    def batches(self, count: int) -> list[int]:
        """
        Global batches worth a search on so many accelerators, the smallest first.

        A stated batch is the only one. Else multiples of the odd part of the count, so that ranks share it evenly,
        from the usual batch up to the largest; one that gives each accelerator plenty of sequences needs no larger.

        Examples
        --------
        >>> job = Job(kind="train", case=TrainCase(model="8B", accelerator=""), sequences=1e9, seq_len=2048,
        ...           global_batch=512, largest_batch=2048)
        >>> job.batches(448), job.batches(16)
        ([448, 896, 1792], [512])
        """
        if self.largest_batch is None:
            return [self.global_batch]
        odd = count // (count & -count)
        first = odd * _power_below(self.global_batch / odd * math.sqrt(2))
        found = [first]
        while found[-1] < PLENTY * count and found[-1] * 2 <= max(self.largest_batch, first):
            found.append(found[-1] * 2)
        return found

    @property
    def tokens(self) -> float:
        """Through the model, padding counted. [tokens]"""
        return self.sequences * self.seq_len * OBJECTIVES[self.case.objective].sequences


class TrainContext(Context[Train | FineTune], kw_only=True):
    """The request with everything that holds for every place."""

    job: Job
    known: Known = msgspec.field(default_factory=dict)
    """What its searches found that the setups of the run share."""


def job_of(request: Train | FineTune, model: Model) -> Job:
    """
    The work that a request comes to.

    Raises
    ------
    BadRequest
        Sequences beyond the model's context, or data that the request does not measure.
    """
    if isinstance(request, Train):
        return _pretraining(request, model)
    return _fine_tuning(request, model)


def _pretraining(request: Train, model: Model) -> Job:
    """
    A pre-training job: an open sequence length is 4,096 tokens or the model's longest, an open batch the usual one with
    a largest that a search may take.
    """
    if not model.groups:
        raise BadRequest(
            f"model: {model.id} takes no tokens; use `plan finetune --method full --examples N` for images"
        )
    said: list[str] = []
    length = request.seq_len
    if length is None:
        length = min(_SEQ_LEN, model.max_context or _SEQ_LEN)
        said.append(f"sequence length not given: {length:,} tokens")
    sequences = max(1.0, request.tokens / length)
    batch, largest = request.global_batch, None
    if batch is None:
        batch = min(_usual_batch(model, length), _power_below(sequences))
        largest = min(max(batch, _largest_batch(request.tokens, length)), _power_below(sequences))
        told = show(float(batch) * length, "tokens")
        said.append(
            f"global batch not given: {batch:,} sequences ({told} a step), as published runs of this size use; up to "
            f"{largest:,} ({show(float(largest) * length, 'tokens')}, as runs on so many tokens) where many "
            "accelerators are faster so"
        )
    return Job(
        kind="train",
        case=TrainCase(model=model.id, accelerator="", precision=request.precision, optimizer=request.optimizer),
        sequences=sequences,
        seq_len=length,
        global_batch=batch,
        largest_batch=largest,
        assumed=tuple(said),
    )


def _fine_tuning(request: FineTune, model: Model) -> Job:
    """A fine-tuning job; an open batch is the usual one and is not raised."""
    said: list[str] = []
    length, sequences = _fine_tuning_sequences(request, model, said)
    # TRL, axolotl, torchtune, NeMo and AutoModel tell attention where each packed example ends.
    packed = bool(model.groups) and request.packed and request.objective == "sft"
    batch, largest = request.global_batch, None
    if batch is None:
        images = not model.groups
        batch = min(_IMAGE_BATCH if images else _FINE_TUNE_BATCH, _power_below(sequences))
        largest = batch
        said.append(f"global batch not given: {batch} {'images' if images else 'sequences'}")
    return Job(
        kind="finetune",
        case=TrainCase(
            model=model.id,
            accelerator="",
            method=request.method,
            precision=request.precision,
            optimizer=request.optimizer,
            document_len=request.tokens_per_example if packed else None,
            lora_rank=request.lora_rank,
            objective=request.objective,
            reference=request.reference,
            image_px=request.image_px,
        ),
        sequences=sequences,
        seq_len=length,
        global_batch=batch,
        largest_batch=largest,
        assumed=tuple(said),
    )


def _fine_tuning_sequences(request: FineTune, model: Model, said: list[str]) -> tuple[int, float]:
    """
    Length of one sequence [tokens; 1 for images] and how many pass through the model, epochs counted. Unpacked, each
    example is one padded sequence. Choices that the request leaves open are appended to `said`.
    """
    if not model.groups:
        if request.examples is None or request.method != "full":
            raise BadRequest(f"model: {model.id} takes images; give --method full and --examples")
        return 1, request.examples * request.epochs
    longest = model.max_context or 2**20
    each = request.tokens_per_example
    if request.extend_context and max(request.seq_len, each or 0.0) > longest:
        said.append(f"context extended beyond the {longest:,} tokens that {model_name(model.id)} was made for")
        longest = 2**40
    if each is not None and each > longest:
        raise BadRequest(
            f"tokens_per_example: {each:,.0f} is beyond the {longest:,} tokens that {model.id} takes; "
            "give less, or --extend-context"
        )
    if request.tokens is None and each is None:
        raise BadRequest("tokens_per_example is missing: give the mean length of an example, or tokens in all")
    pairs = OBJECTIVES[request.objective].sequences > 1
    if request.objective != "sft" and (request.examples is None or each is None):
        raise BadRequest(
            f"objective: {request.objective} compares whole answers; give examples and tokens_per_example, the length "
            "of prompt and answer"
        )
    if not request.packed or request.objective != "sft":
        if pairs:
            said.append("an example is a pair: its chosen and its rejected answer pass together")
        if each is None or request.examples is None:
            raise BadRequest("packed: without packing, examples and tokens_per_example must be given")
        length = min(longest, max(64, 64 * math.ceil(each / 64)))
        said.append(f"not packed: each example padded to {length:,} tokens; longer ones cost more")
        return length, request.examples * request.epochs
    usual = next(field.default for field in msgspec.structs.fields(FineTune) if field.name == "seq_len")
    if request.seq_len > max(longest, usual):
        raise BadRequest(
            f"seq_len: {request.seq_len:,} is beyond the {longest:,} tokens that {model.id} takes; give less, or "
            "--extend-context"
        )
    length = min(request.seq_len, longest)
    if length < request.seq_len:
        said.append(f"sequences of {length:,} tokens: {model_name(model.id)} takes no longer ones")
    if each is not None:
        length = min(longest, max(length, 64 * math.ceil(each / 64)))
        said.append(f"examples packed into sequences of {length:,} tokens, attention within each example")
    total = request.tokens if request.tokens is not None else (request.examples or 0.0) * (each or 0.0)
    return length, max(1.0, total * request.epochs / length)


def _usual_batch(model: Model, seq_len: int) -> int:
    """
    Sequences per step, a power of two: half a million tokens at 125M parameters, growing as in arXiv 2005.14165, table
    2.1.
    """
    tokens = 0.5e6 * (parameters(model).value / 125e6) ** 0.26
    return _power_below(max(1.0, tokens / seq_len * math.sqrt(2)))


def _largest_batch(tokens: float, seq_len: int) -> int:
    """
    Sequences per step of the largest published batches for so many tokens of training.

    16M tokens at 15.6T (Llama 3 405B, arXiv 2407.21783, 3.4.1); what a run bears grows with its tokens to the power of
    0.47, hardly with the model (arXiv 2410.21676).
    """
    return _power_below(max(1.0, 2**24 * (tokens / 15.6e12) ** 0.47 / seq_len * math.sqrt(2)))


def _power_below(value: float) -> int:
    """The largest power of two that is not above a value; 1 below 1."""
    return int(2 ** math.floor(math.log2(max(1.0, value))))
