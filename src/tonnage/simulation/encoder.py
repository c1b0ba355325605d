"""How long does a vision encoder take, beside the language model or on workers of its own, and what does it hold?

Beside the language model it runs before the step that carries an image's tokens, and everybody in the step waits
(vLLM's `_execute_mm_encoder`). Its kernels are launched one by one, since no graph captures them, so that small images
wait for the host. On tensor-parallel ranks either its weights are divided, with two exchanges a layer, or whole images
are dealt out and their encodings gathered once. Encodings are kept: as many as the engine has room for, and of images
drawn evenly from D different ones a cache of C finds C / D again, whatever is evicted.

On workers of its own (`Encoders`) images of a request go to whoever is free, one pass each, and the request's prompt
starts when the last of them has been moved.

Left out: reading, decoding and resizing images on the host, which engines do in other processes.
"""

from __future__ import annotations

import math
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.engine_spec import Overheads
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Attention, Mlp, Model
from tonnage.domain.precision import Precision
from tonnage.domain.requests.groups import Images
from tonnage.physics.operators import operator_s
from tonnage.physics.vision import encoder_model, encoder_of, encoder_work, token_bytes
from tonnage.physics.work import Operator
from tonnage.simulation.simulated import Floats
from tonnage.simulation.step_parts import Placement, busy_s, parts_of

FULL: Final = 8_192.0
"""Image tokens of a pass that is wide enough for its rate, where an engine's budget says nothing. [tokens]"""
KEPT: Final = 0.9
"""Of an encoder worker's memory that may be used, as of any worker. [-]"""


def encode_s(
    placement: Placement, overheads: Overheads, *, images: Images, count: float, tp: int = 1, dealt: bool = False
) -> float:
    """
    One pass over `count` images on `tp` ranks. [s]

    The ranks divide the encoder's weights, or are `dealt` whole images each, whose encodings are gathered afterwards.
    """
    p, o = placement, overheads
    if dealt and tp > 1:
        mine = encode_s(placement, overheads, images=images, count=math.ceil(count / tp - 1e-9))
        message = count * images.tokens * token_bytes(p.model)
        gather = Operator(kind="all_gather", name="encodings", message_bytes=message, ranks=tp)
        return mine + operator_s(gather, accelerator=p.accelerator, ladder=p.ladder)[0] * o.collective
    sixteen = "fp16" if p.precision.activations == "fp16" else "bf16"
    formats = Precision(weights=sixteen, kv=sixteen, activations=sixteen)
    work = encoder_work(p.model, images, count=count, precision=formats, layout=Layout(tp=tp))
    encoder = replace(
        p,
        model=encoder_model(p.model, encoder_of(p.model)),
        layout=Layout(tp=tp),
        precision=formats,
        speculation=None,
        two_batches=False,
    )
    parts = parts_of(work, encoder)
    return max(busy_s(parts, o, prompts=True), o.prefill_launch_s * parts.kernels)


def encoder_share(
    placement: Placement, overheads: Overheads, *, images: Images, budget: float, hits: float, dealt: bool
) -> tuple[float, float]:
    """
    What encoding adds to steps that carry prompts of these images: once a step, and for each image. [s, s]

    `budget` is the image tokens of the widest pass, `hits` the share of images whose encoding is kept already.
    """
    tp = placement.layout.tp
    n = max(1.0, images.per_request)
    many = max(2.0 * n, budget / images.tokens)
    wide, alone = (
        encode_s(placement, overheads, images=images, count=count, tp=tp, dealt=dealt) for count in (many, n)
    )
    each = wide / many
    fixed = max(0.0, alone - n * each)
    # A step of prompts whose images are all kept encodes nothing.
    chance = 1.0 - hits**n if hits else 1.0
    few = min(1.0, images.per_request)
    return fixed * chance * few, each * (1.0 - hits)


def hits_of(model: Model, images: Images, *, kept: float) -> float:
    """
    Share of images whose encoding is found again in so many bytes. [-]

    As stated; else the share of all different images that fit; 0 where neither is stated.
    """
    if images.hits is not None:
        return images.hits
    if images.distinct is None:
        return 0.0
    held = math.floor(kept / (images.tokens * token_bytes(model)))
    return min(1.0, held / images.distinct)


def encoder_parts(model: Model, images: Images, *, tokens: float, kept: float, tp: int) -> tuple[Quantity, ...]:
    """
    What encoding holds on a rank beside the encoder's weights: activations of a pass, and encodings. [bytes]

    `tokens` are the image tokens of a pass, `kept` the bytes of encodings.
    """
    tower = encoder_of(model)
    width = tower.hidden_size or model.hidden_size
    rows = max(1.0, tokens / images.tokens) * images.tiles * images.patches
    block = tower.layers[0]
    inner = block.feed_forward.intermediate_size if isinstance(block.feed_forward, Mlp) else 4 * width
    heads = block.mixer.num_attention_heads * block.mixer.head_dim if isinstance(block.mixer, Attention) else width
    live = 2.0 * rows * (2.0 * width + max(4.0 * heads, 2.0 * inner) / tp)
    how = f"{rows:,.0f} patches: residual, and queries, keys and values or the inner width"
    return (
        Quantity(name="images: activations of the encoder", value=live, basis=Basis.CALIBRATED, source=how),
        Quantity(name="images: kept encodings", value=kept, source=f"{token_bytes(model):,.0f} bytes a token"),
    )


def kept_bytes(model: Model, images: Images, *, budget: float) -> float:
    """Room for encodings beside the language model: a step's tokens, and one image at least (vLLM). [bytes]"""
    return max(budget, images.tokens) * token_bytes(model)


def with_encoder(
    placement: Placement, overheads: Overheads, *, images: Images, isl: float, engine: Engine
) -> Placement:
    """The placement whose steps with prompts encode their images first."""
    budget = float(engine.max_num_batched_tokens or FULL)
    hits = hits_of(placement.model, images, kept=kept_bytes(placement.model, images, budget=budget))
    dealt = engine.mm_encoder_tp_mode == "data"
    fixed, each = encoder_share(placement, overheads, images=images, budget=budget, hits=hits, dealt=dealt)
    return replace(placement, encoder_s=(fixed, each * images.per_request / max(1.0, isl)))


def held_for_images(model: Model, images: Images, *, engine: Engine, tp: int) -> tuple[Quantity, ...]:
    """What a rank holds of images beside the encoder's weights, which each is taken to hold whole. [bytes]"""
    budget, dealt = float(engine.max_num_batched_tokens or FULL), engine.mm_encoder_tp_mode == "data"
    # Dealt out, a rank encodes its part of the step's images; otherwise all of them, divided inside.
    tokens = max(images.tokens, budget / tp if dealt else budget)
    kept = kept_bytes(model, images, budget=budget)
    return encoder_parts(model, images, tokens=tokens, kept=kept, tp=1 if dealt else tp)


def moved_s(placement: Placement, images: Images, *, leaves_node: bool) -> float:
    """Moving the encodings of a mean request to the worker that computes its prompt. [s]"""
    p = placement
    if not images.per_request:
        return 0.0
    message = images.prompt_tokens * token_bytes(p.model)
    move = Operator(kind="point_to_point", name="encodings", message_bytes=message, ranks=2, inter_node=leaves_node)
    return operator_s(move, accelerator=p.accelerator, ladder=p.ladder)[0]


class Encoders(NamedTuple):
    """Workers that encode images and do nothing else."""

    workers: int
    image_s: float
    """One image, alone on a worker. [s]"""
    images: float
    """Of a request that are not kept. [-]"""
    moved_s: float
    """Of a request's encodings. [s]"""

    @property
    def most(self) -> float:
        """Requests that they keep up with. [1/s]"""
        return self.workers / (self.images * self.image_s) if self.images else math.inf

    def first_s(self, rate: float, *, dispersion: float, share: float) -> tuple[float, float]:
        """
        Mean delay of a request's prompt, and how far its percentile lies beyond that. [s]

        k images of a request on e workers take ceil(k / e) passes, or leave room for e / k requests at a time:
        Sakasegawa's approximation of their queue, as for prefill workers, with passes of one length.
        """
        if not self.images:
            return self.moved_s, 0.0
        k = max(1.0, self.images)
        at_once = max(1.0, self.workers / k)
        own = math.ceil(k / self.workers - 1e-9) * self.image_s * min(1.0, self.images)
        busy = min(0.999, rate / self.most)
        each = k * self.image_s / min(k, self.workers)
        queue = each * dispersion / 2.0 * math.pow(busy, math.sqrt(2.0 * (at_once + 1.0)) - 1.0)
        queue /= at_once * (1.0 - busy)
        return own + queue + self.moved_s, queue * (math.log(1.0 / (1.0 - share)) - 1.0)

    def ready_s(self, sent_s: Floats, seed: int = 0) -> Floats:
        """When the prompt of each request can start: its images encoded, first come first served, and moved. [s]"""
        import numpy as np

        draw = np.random.default_rng(seed)
        whole, part = divmod(self.images, 1.0)
        counts = np.full(len(sent_s), int(whole)) + (draw.random(len(sent_s)) < part)
        free = [0.0] * self.workers
        heapify(free)
        ready = np.array(sent_s, float)
        for i, (now, count) in enumerate(zip(sent_s.tolist(), counts.tolist(), strict=True)):
            last = now
            for _ in range(count):
                last = max(now, free[0]) + self.image_s
                heapreplace(free, last)
            ready[i] = last
        return ready + self.moved_s
