"""Encoders beside the language model and on workers of their own: time, room, and queues that agree with a replay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.deployment import Deployment, deploy
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Layout
from tonnage.domain.requests.groups import Images
from tonnage.physics.vision import encoder_of, image_of, token_bytes
from tonnage.simulation.encoder import Encoders, encode_s, encoder_share, hits_of, kept_bytes

MODEL = resolve("Qwen2.5-VL-7B")
IMAGES = image_of(encoder_of(MODEL), width=1024, height=1024, per_request=4.0)


def deployed(tp: int = 1, **options: object) -> Deployment:
    case = ServeCase(
        model=MODEL, accelerator="h100-sxm5-80gb", traffic=Traffic(rate_per_s=1.0), isl=6000.0, osl=200.0,
        layout=Layout(tp=tp), images=IMAGES, engine_options=dict(options),
    )  # fmt: skip
    return deploy(case, model=MODEL, accelerator=catalog.accelerator("h100-sxm5-80gb"))


def test_a_step_with_prompts_takes_longer_by_the_encoder_and_memory_holds_it() -> None:
    at = deployed()
    fixed, token = at.placement.encoder_s
    alone = encode_s(at.placement, at.overheads, images=IMAGES, count=4.0)
    assert fixed + token * 6000.0 == pytest.approx(alone, rel=0.01)
    held = {part.name: part.value for part in at.pool.memory.parts if part.name.startswith("images")}
    # As many tokens of encodings as a step has, 3,584 numbers of 16 bits each (vLLM's encoder cache).
    assert held["images: kept encodings"] == at.engine.max_num_batched_tokens * 3584 * 2.0
    assert held["images: activations of the encoder"] > 1e8


def test_whole_images_dealt_out_are_sooner_than_an_encoder_divided_over_ranks() -> None:
    """vLLM pull requests 22742, 23909, 24955: data-parallel encoders win, by more the smaller the encoder."""
    at = deployed(tp=4)
    divided, dealt = (
        encode_s(at.placement, at.overheads, images=IMAGES, count=8.0, tp=4, dealt=whole) for whole in (False, True)
    )
    one = encode_s(at.placement, at.overheads, images=IMAGES, count=2.0)
    assert one < dealt < divided
    # One image alone has no ranks to be dealt to.
    lone = encode_s(at.placement, at.overheads, images=IMAGES, count=1.0, tp=4, dealt=True)
    assert lone > encode_s(at.placement, at.overheads, images=IMAGES, count=1.0, tp=4)


@given(st.integers(1, 10**6), st.floats(0.0, 1e12))
def test_more_room_finds_more_images_again(distinct: int, room: float) -> None:
    images = Images(per_request=1.0, tiles=1.0, patches=1024.0, tokens=256.0, distinct=float(distinct))
    less, more = hits_of(MODEL, images, kept=room), hits_of(MODEL, images, kept=2.0 * room)
    assert 0.0 <= less <= more <= 1.0
    assert hits_of(MODEL, images, kept=distinct * 256 * token_bytes(MODEL) * 1.01) == 1.0


def test_images_that_are_kept_cost_nothing() -> None:
    at = deployed()
    none = encoder_share(at.placement, at.overheads, images=IMAGES, budget=8192.0, hits=0.0, dealt=False)
    most = encoder_share(at.placement, at.overheads, images=IMAGES, budget=8192.0, hits=0.9, dealt=False)
    assert most[1] == pytest.approx(0.1 * none[1]) and most[0] <= none[0]
    assert kept_bytes(MODEL, IMAGES, budget=100.0) == IMAGES.tokens * token_bytes(MODEL)


@pytest.mark.parametrize(("workers", "images"), [(1, 1.0), (2, 4.0), (4, 1.0), (3, 2.0)])
def test_the_queue_of_encoders_is_near_a_replay_of_it(workers: int, images: float) -> None:
    pool = Encoders(workers=workers, image_s=0.04, images=images, moved_s=0.001)
    rate = 0.6 * pool.most
    sent = np.cumsum(np.random.default_rng(1).exponential(1.0 / rate, 40_000))
    waited = pool.ready_s(sent) - sent
    mean, beyond = pool.first_s(rate, dispersion=1.0, share=0.95)
    assert mean == pytest.approx(float(waited.mean()), rel=0.2)
    assert mean + beyond == pytest.approx(float(np.quantile(waited, 0.95)), rel=0.35)


def test_encoders_serve_first_come_first_and_lose_nobody() -> None:
    pool = Encoders(workers=2, image_s=1.0, images=2.0, moved_s=0.5)
    assert pool.ready_s(np.array([0.0, 0.0, 5.0])).tolist() == [1.5, 2.5, 6.5]
    assert Encoders(workers=1, image_s=1.0, images=0.0, moved_s=0.5).first_s(9.0, dispersion=1.0, share=0.95) == (
        0.5,
        0,
    )
