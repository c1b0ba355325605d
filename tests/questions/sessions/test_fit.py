"""Sessions fitted from logs: who continues whom, and what is fitted draws the like."""

from array import array

import numpy as np
import pytest
from tests.simulation.test_sessions import BRANCHING

from tonnage.catalog.traces import Trace
from tonnage.domain.sessions import CacheTier
from tonnage.errors import BadFact
from tonnage.questions.sessions.logs import fit_sessions, links_of
from tonnage.simulation.sessions import Replicas, draw_turns, simulate_sessions

SIZE = 64


def log_of(rows: list[tuple[float, int, list[int]]]) -> Trace:
    """A log of (time, prompt, block ids)."""
    ids = [block for _, _, blocks in rows for block in blocks]
    return Trace(
        sent_s=array("d", [at for at, _, _ in rows]),
        prompt=array("q", [n for _, n, _ in rows]),
        output=array("q", [5] * len(rows)),
        offsets=array("q", np.concatenate(([0], np.cumsum([len(blocks) for _, _, blocks in rows]))).tolist()),
        blocks=array("q", ids),
        hash_tokens=SIZE,
        source="made",
    )


def played(turns: int) -> Trace:
    """A log of drawn sessions, with a name for each block as gateways write them."""
    drawn = draw_turns(BRANCHING, turns_per_s=4.0, turns=turns)
    rows: list[tuple[float, int, list[int]]] = []
    chains: dict[int, list[int]] = {}
    name = 1000
    for k in range(turns):
        shared, session = int(drawn.shared[k]), int(drawn.session[k])
        begin = [int(drawn.group[k]) * 100 + i for i in range(shared // SIZE)]
        chain = chains[session][: int(drawn.kept[k]) // SIZE] if np.isfinite(drawn.gap_s[k]) else begin
        chain = [*begin, *chain[len(begin) :]]
        while len(chain) < -(-int(drawn.context[k]) // SIZE):
            name += 1
            chain.append(name)
        chains[session] = chain
        rows.append((float(drawn.sent_s[k]), int(drawn.prompt[k]), chain[: -(-int(drawn.prompt[k]) // SIZE)]))
    return log_of(rows)


def test_who_continues_whom() -> None:
    links = links_of(
        log_of(
            [
                (0.0, 150, [1, 2, 3]),
                (5.0, 140, [4, 5, 6]),
                (9.0, 270, [1, 2, 7, 8, 9]),
                (20.0, 100, [1, 10]),
                (21.0, 330, [1, 2, 7, 8, 11, 12]),
            ]
        )
    )
    assert links.session.tolist() == [0, 1, 0, 0, 0] and links.turn.tolist() == [0, 0, 1, 2, 3]
    assert links.kept.tolist() == [0, 0, 128, 64, 256]
    assert links.gap_s[2:].tolist() == [9.0, 11.0, 1.0] and np.isnan(links.gap_s[:2]).all()


def test_a_fit_of_the_first_half_predicts_the_hits_of_the_second() -> None:
    log, half = played(16_000), 8_000
    first = Trace(
        sent_s=log.sent_s[:half],
        prompt=log.prompt[:half],
        output=log.output[:half],
        offsets=log.offsets[: half + 1],
        blocks=log.blocks[: log.offsets[half]],
        hash_tokens=SIZE,
        source="made",
    )
    fitted = fit_sessions(first)
    assert sum(one.share for one in fitted.classes) == pytest.approx(1.0) and len(fitted.classes) == 4
    rate = half / first.sent_s[-1]
    for blocks in (300, 2000, 20_000):
        tier, served = (CacheTier(name="gpu", blocks=blocks),), Replicas(block_tokens=SIZE)
        guess = simulate_sessions(fitted, tier, turns_per_s=rate, turns=16_000, served=served, warm_share=0.5)
        truth = simulate_sessions(BRANCHING, tier, turns_per_s=4.0, turns=16_000, served=served, warm_share=0.5)
        assert guess.hit_rate == pytest.approx(truth.hit_rate, abs=0.05), blocks


def test_logs_without_block_ids_say_nothing_of_sessions() -> None:
    log = Trace(
        sent_s=array("d", [0.0, 1.0]),
        prompt=array("q", [5, 5]),
        output=array("q", [1, 1]),
        offsets=array("q"),
        blocks=array("q"),
        source="gateway.csv",
    )
    with pytest.raises(BadFact, match=r"'gateway.csv' has no block ids \(hash_ids\)"):
        fit_sessions(log)
    with pytest.raises(BadFact, match="one request"):
        fit_sessions(log_of([(0.0, 100, [1])]))
