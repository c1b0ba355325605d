"""Classes of lengths keep the mean and nearly the variance of what a simulation draws."""

import numpy as np
import pytest

from tonnage.catalog.traffic import profile
from tonnage.core.length_spread import (
    Beside,
    answer_classes,
    lasting_answer,
    later_tokens,
    long_answer,
    prompt_classes,
    prompt_work,
)
from tonnage.domain.requests.common import Lengths
from tonnage.simulation import arrivals

NAMES = ("chat", "code", "rag", "long-chat", "summarise", "reasoning", "batch")


@pytest.mark.parametrize("name", NAMES)
def test_classes_are_those_of_the_drawn_lengths(name: str) -> None:
    known = profile(name)
    quantiles = arrivals.Quantiles(*zip(*known.output_quantiles, strict=True), known.lengths.output_tokens)
    drawn = arrivals.draw_lengths(arrivals.random(0), 20_000, quantiles=quantiles).astype(float)
    found = answer_classes(known.lengths)
    assert sum(share for share, _ in found) == pytest.approx(1.0)
    mean = sum(share * tokens for share, tokens in found)
    assert mean == pytest.approx(known.lengths.output_tokens, rel=0.001)
    assert lasting_answer(known.lengths) == pytest.approx(float(np.mean(drawn**2) / np.mean(drawn)), rel=0.1)
    assert sum(share * tokens for share, tokens in later_tokens(known.lengths)) == pytest.approx(mean - 1.0, rel=0.01)


def test_answers_of_sessions_have_their_own_percentile() -> None:
    assert long_answer(profile("agent").lengths) == pytest.approx(493.0, rel=0.1)


def test_equal_lengths_have_no_classes_and_a_percentile_alone_gives_some() -> None:
    plain = Lengths(prompt_tokens=1000.0, output_tokens=200.0)
    assert prompt_classes(plain) == answer_classes(plain) == () and lasting_answer(plain) == 200.0
    wide = Lengths(prompt_tokens=1000.0, output_tokens=200.0, prompt_p95=3000.0)
    found = prompt_classes(wide)
    assert sum(share * tokens for share, tokens, _ in found) == pytest.approx(1000.0, rel=0.01)
    assert max(tokens for _, tokens, _ in found) > 3000.0


def test_long_prompts_take_more_than_their_share() -> None:
    mean = Beside(first_s=0.1, each_s=0.1, free_s=0.0, free_rows=0.0)
    equal = prompt_work(Lengths(prompt_tokens=4000.0, output_tokens=1.0), mean, alone=0.11, tail=0.11, budget=2000.0)
    assert (equal.each_s, equal.uneven) == (0.1, 0.0) and equal.piece_s == pytest.approx(0.05)
    lengths = Lengths(prompt_tokens=4000.0, output_tokens=1.0, prompt_p95=12000.0)
    straight, steep = (prompt_work(lengths, mean, alone=0.1, tail=tail, budget=1e9) for tail in (0.3, 0.6))
    assert straight.each_s == pytest.approx(0.1, rel=0.01)
    assert steep.each_s > 1.2 * straight.each_s and steep.uneven > straight.uneven > 0.5
