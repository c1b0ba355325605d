"""A U-Net's work grows with its image; a control copy adds a down path; equal layers are listed once."""

import msgspec
import pytest

from tonnage.nouns.offline import Unet
from tonnage.nouns.precision import Precision
from tonnage.physics.unet import GROUP_NORM, unet_work, vae_decoder_work
from tonnage.physics.work import Work

FP16 = Precision(weights="fp16", kv="fp16", activations="fp16")
SMALL = Unet(family="test", block_out_channels=(64, 128), transformer_layers_per_block=(0, 1), cross_attention_dim=256)


def flop(work: Work) -> float:
    return sum(op.flop * op.count for op in work)


def test_work_is_linear_in_the_batch() -> None:
    one, four = (unet_work(SMALL, resolution=256, batch=b, precision=FP16) for b in (1, 4))
    assert flop(four) == pytest.approx(4 * flop(one))


def test_attention_makes_it_grow_faster_than_the_pixels() -> None:
    near, far = (flop(unet_work(SMALL, resolution=side, batch=1, precision=FP16)) for side in (256, 1024))
    assert far > 16 * near


def test_a_control_copy_runs_beside_the_first_half() -> None:
    plain = flop(unet_work(SMALL, resolution=256, batch=1, precision=FP16))
    controlled = msgspec.structs.replace(SMALL, control=True)
    assert 1.2 * plain < flop(unet_work(controlled, resolution=256, batch=1, precision=FP16)) < 2 * plain


def test_equal_layers_are_one_operator() -> None:
    work = unet_work(SMALL, resolution=256, batch=1, precision=FP16)
    assert len(set(work)) == len(work) < sum(op.count for op in work)
    assert any(op.name.startswith(GROUP_NORM) for op in work)


def test_a_convolution_reads_its_input_once() -> None:
    work = vae_decoder_work(resolution=64, batch=1, precision=FP16)
    for op in work:
        if op.kind == "convolution":
            assert op.read_bytes == pytest.approx(2 * (op.n * op.k + op.m * op.k / 9))
