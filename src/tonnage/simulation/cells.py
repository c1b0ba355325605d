"""What llama.cpp holds on a device beside the weights: cells of its slots, one graph's buffer, the driver's context.

All of it is allocated at the start, whether or not anybody asks. Slots share the context that the engine is started
for, each with cells of its own. Token embeddings and the logits that leave the graph lie in host memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.engine_spec import ResolvedEngine
from tonnage.domain.layout import Layout
from tonnage.domain.model import Model
from tonnage.physics.graph_buffer import graph_buffer
from tonnage.physics.memory import cell_cache_bytes, window_cells
from tonnage.record import Record


class Slots(Record, kw_only=True):
    """Slots of an engine, and what is allocated for each."""

    count: float
    context: float
    """Tokens of a slot, on average where they share one cache. [tokens]"""
    piece: float
    """Tokens of a prompt that are computed at once. [tokens]"""
    windows: bool = True
    """Windowed layers keep their window alone."""
    unified: bool = False
    """One cache is shared by all slots."""

    @property
    def tokens(self) -> float:
        """Of all slots. [tokens]"""
        return self.count * self.context

    @property
    def kept_piece(self) -> float:
        """What windowed layers keep beside their windows; without end where they keep everything. [tokens]"""
        return self.piece if self.windows else math.inf

    @property
    def shared(self) -> float:
        """Slots of one cache. [-]"""
        return self.count if self.unified else 1.0

    def cache_bytes(self, model: Model, kv_format: str, *, layout: Layout) -> float:
        """Cells and states of all slots on one rank. [bytes]"""
        return cell_cache_bytes(
            model,
            kv_format,
            context=self.context,
            sequences=self.count,
            shared=self.shared,
            piece=self.kept_piece,
            layout=layout,
        )


def slots_of(engine: ResolvedEngine, *, concurrency: float, context: float) -> Slots:
    """
    The slots that the settings ask for and as many as are wanted, each with room for a request of that context.

    Where they share one cache, its cells are those of the requests that run.
    """
    settings = engine.settings
    asked = float(settings.max_num_seqs or 1)
    count = max(asked, concurrency)
    if settings.kv_unified:
        each = max(1.0, concurrency * context, settings.max_model_len or 0.0) / count
    else:
        each = max(1.0, context, (settings.max_model_len or 0.0) / asked)
    return Slots(
        count=count,
        context=each,
        piece=min(count * each, float(settings.max_num_batched_tokens or 512)),
        windows=engine.release >= engine.spec.memory.windows_since,
        unified=bool(settings.kv_unified),
    )


def beside_weights(
    model: Model, accelerator: Accelerator, *, engine: ResolvedEngine, layout: Layout, slots: Slots
) -> Iterator[Quantity]:
    """Buffers of one device, and on an accelerator what its driver and kernels take. [bytes]"""
    rule = engine.spec.memory
    buffer = graph_buffer(
        model,
        tokens=slots.piece,
        cells=window_cells(model, context=slots.context, piece=slots.kept_piece, shared=slots.shared),
        outputs=slots.count if engine.release >= rule.few_outputs_since else slots.piece,
        sequences=slots.count,
        fused=engine.spec.fuses_attention(engine.release),
        devices=layout.pp,
    )
    widest = buffer.parts[-1]
    yield Quantity(name="compute buffer", value=buffer.value, source=f"{widest.source}; widest: {widest.name}")
    if accelerator.segment == "cpu":
        logits = 4.0 * slots.count * model.vocab_size
        yield Quantity(name="output buffer", value=logits, source="32-bit logits of each slot")
    elif taken := rule.context_bytes.get(accelerator.vendor):
        source = "unaccounted in llama.cpp's memory breakdown"
        yield Quantity(name="context and libraries", value=taken, basis=Basis.CALIBRATED, source=source)


def on_device(weights: Quantity, accelerator: Accelerator) -> Quantity:
    """The weights that a device holds: an accelerator all but the embeddings, unless they are the head as well."""
    if accelerator.segment == "cpu" or not weights.part("head"):
        return weights
    return Quantity.of_parts("bytes", (part for part in weights.parts if part.name != "embedding"))
