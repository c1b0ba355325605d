"""A window costs its encoder once and its decoder once per token."""

import pytest

from tonnage import catalog
from tonnage.domain.precision import Precision
from tonnage.physics.vision import WINDOW_TOKENS, decoder_step_work, speech_encoder_work
from tonnage.physics.work import Work

FP16 = Precision(weights="fp16", kv="fp16", activations="fp16")
SMALL = catalog.model("openai/whisper-small")


def flop(work: Work) -> float:
    return sum(op.flop * op.count for op in work)


def test_encoder_is_linear_in_windows() -> None:
    one, three = (flop(speech_encoder_work(SMALL, windows=n, precision=FP16)) for n in (1, 3))
    assert three == pytest.approx(3 * one)


def test_every_decoder_step_reads_the_whole_window() -> None:
    work = decoder_step_work(SMALL, windows=2, context=10, precision=FP16)
    (cross,) = (op for op in work if op.name == "cross attention")
    assert (cross.context, cross.batch, cross.count) == (WINDOW_TOKENS, 2, 12)


def test_a_step_does_not_make_the_windows_keys_again() -> None:
    step = decoder_step_work(SMALL, windows=1, context=10, precision=FP16)
    assert not any(op.name == "cross key/value" for op in step)
    assert any(op.name == "cross key/value" for op in speech_encoder_work(SMALL, windows=1, precision=FP16))


def test_longer_texts_cost_more() -> None:
    short, long = (flop(decoder_step_work(SMALL, windows=1, context=c, precision=FP16)) for c in (10, 400))
    assert long > short


def test_beams_write_for_themselves_and_read_the_window_once() -> None:
    model = catalog.model("openai/whisper-large-v3")
    one, five = (
        decoder_step_work(model, windows=4, context=70, precision=Precision(), beams=beams) for beams in (1.0, 5.0)
    )
    own, crossed = (
        [sum(op.flop * op.count for op in work if ("cross" in op.name) is crossed) for work in (one, five)]
        for crossed in (False, True)
    )
    assert own[1] == pytest.approx(5 * own[0], rel=0.01)
    assert crossed[1] == pytest.approx(crossed[0])
