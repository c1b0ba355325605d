"""Where queueing theory has an answer, the simulator gives it."""

import math

import numpy as np
import pytest

from tonnage.simulation import serving
from tonnage.simulation.metrics import summary
from tonnage.simulation.serving import gap_quantile, simulate
from tonnage.simulation.simulated import Limits, ReplicaArrays, Requests, StepArrays, requests_of


def table(seats: int, rows: int, *, decode_s: float = 0.0, token_s: float = 0.0, step_s: float = 0.0) -> StepArrays:
    """Steps that cost a fixed time, and prompts that cost by the token."""
    return StepArrays(
        decode_s=np.full(seats + 1, decode_s),
        context_s=np.zeros(seats + 1),
        attend_s=np.zeros(seats + 1),
        mixed_s=np.full(rows + seats + 1, step_s),
        head_s=np.zeros(rows + seats + 1),
        chunk_s=0.0,
        chunk_token_s=token_s,
        chunk_square_s=0.0,
        host_s=0.0,
        host_sequence_s=0.0,
        host_prompt_s=0.0,
        hidden_s=0.0,
    )


def poisson(n: int, rate: float) -> np.ndarray:
    return np.cumsum(np.random.default_rng(7).exponential(1.0 / rate, n))


def one_at_a_time(requests: Requests, token_s: float) -> float:
    """Mean wait of a server of one prompt at a time."""
    limits = Limits(max_num_seqs=1, budget=1 << 20, block_tokens=1, num_blocks=1 << 30)
    found = simulate(ReplicaArrays(table(1, 1 << 20, token_s=token_s), limits), requests=requests)
    return float((found.started_s - found.requests.sent_s).mean())


@pytest.mark.parametrize("load", [0.5, 0.7])
def test_md1(load: float) -> None:
    n, service = 600_000, 0.1
    requests = requests_of(poisson(n, load / service), np.full(n, 1000), output=np.ones(n))
    expected = load * service / (2.0 * (1.0 - load))
    assert one_at_a_time(requests, service / 1000) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("load", [0.4, 0.6])
def test_mm1(load: float) -> None:
    n, service = 800_000, 0.1
    prompts = np.maximum(1, np.random.default_rng(3).exponential(10_000, n).round())
    requests = requests_of(poisson(n, load / service), prompts, output=np.ones(n))
    assert one_at_a_time(requests, service / 10_000) == pytest.approx(load * service / (1.0 - load), rel=0.02)


@pytest.mark.parametrize("servers", [2, 8])
def test_erlang_c(servers: int) -> None:
    n, mean, step = 600_000, 2000, 1e-4
    load = 0.75 * servers
    # An answer of k tokens takes the step of its prompt and k - 1 more.
    tokens = np.maximum(1, np.random.default_rng(5).exponential(mean, n).round())
    limits = Limits(max_num_seqs=servers, budget=1 << 16, block_tokens=1 << 20, num_blocks=1 << 30)
    times = table(servers, 1 << 16, decode_s=step, step_s=step)
    requests = requests_of(poisson(n, load / (mean * step)), np.ones(n), output=tokens)
    found = simulate(ReplicaArrays(times, limits), requests=requests)
    below = sum(load**k / math.factorial(k) for k in range(servers))
    waiting = load**servers / math.factorial(servers) / (1.0 - load / servers)
    expected = waiting / (below + waiting) * mean * step / (servers - load)
    assert (found.started_s - found.requests.sent_s).mean() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("clients", "think"), [(4, 0.0), (48, 0.0), (32, 0.5)])
def test_littles_law_in_a_closed_loop(clients: int, think: float) -> None:
    n = 200 * clients
    pick = np.random.default_rng(1)
    limits = Limits(max_num_seqs=32, budget=512, block_tokens=16, num_blocks=4000)
    requests = requests_of(
        np.zeros(n), pick.integers(50, 400, n), output=pick.integers(20, 200, n), think_s=np.full(n, think)
    )
    found = simulate(
        ReplicaArrays(table(32, 512, decode_s=0.01, step_s=0.02), limits), requests=requests, clients=clients
    )
    e2e, sent = found.e2e_s, found.requests.sent_s
    window = (np.quantile(found.last_s, 0.1), np.quantile(found.last_s, 0.9))
    inside = (sent >= window[0]) & (sent < window[1])
    rate = inside.sum() / (window[1] - window[0])
    assert rate * (e2e[inside].mean() + think) == pytest.approx(clients, rel=0.01)


def test_gaps_between_tokens_of_a_lone_request() -> None:
    limits = Limits(max_num_seqs=4, budget=512, block_tokens=16, num_blocks=1000)
    requests = requests_of(np.zeros(1), np.array([100]), output=np.array([501]))
    found = simulate(ReplicaArrays(table(4, 512, decode_s=0.01, step_s=0.02), limits), requests=requests)
    assert found.gaps.sum() == 500
    assert gap_quantile(found.gaps, 0.5) == pytest.approx(0.01, rel=0.01)
    assert found.tpot_s[0] == pytest.approx(0.01)
    assert found.ttft_s[0] == pytest.approx(0.02)


def test_the_timeline_counts_whom_it_sees() -> None:
    limits = Limits(max_num_seqs=2, budget=64, block_tokens=16, num_blocks=100)
    requests = requests_of(np.linspace(0, 1, 11), np.full(11, 10), output=np.full(11, 100))
    found = simulate(ReplicaArrays(table(2, 64, decode_s=0.01, step_s=0.01), limits), requests=requests, every_s=0.1)
    line = found.timeline
    assert line.running.max() == 2
    assert line.waiting.max() >= 8
    assert line.used_blocks.max() <= 2 * 7
    assert (line.tokens_per_s <= 2 / 0.01 * 1.11).all()


def test_a_watcher_that_interrupts_leaves_what_is_done() -> None:
    n = 300_000
    limits = Limits(max_num_seqs=64, budget=512, block_tokens=16, num_blocks=1000)
    requests = requests_of(np.linspace(0, 3e4, n), np.full(n, 10), output=np.full(n, 5))

    def stop(done: int, total: int) -> None:
        assert done < total
        raise KeyboardInterrupt

    found = simulate(ReplicaArrays(table(64, 512, decode_s=0.01, step_s=0.01), limits), requests=requests, watch=stop)
    assert found.partial
    done = summary(found.e2e_s)
    assert 0 < done.count < n


def test_without_a_watcher_an_interrupt_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a run that nobody asked for would be taken for a whole one."""
    from tonnage.simulation import compiled

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compiled, "play", interrupted)
    limits = Limits(max_num_seqs=2, budget=64, block_tokens=16, num_blocks=100)
    requests = requests_of(np.linspace(0, 1, 11), np.full(11, 10), output=np.full(11, 100))
    with pytest.raises(KeyboardInterrupt):
        simulate(ReplicaArrays(table(2, 64, decode_s=0.01, step_s=0.01), limits), requests=requests)


def test_a_backlog_after_the_last_arrival_is_watched_and_can_be_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "PIECE", 500)
    n = 20_000
    limits = Limits(max_num_seqs=8, budget=512, block_tokens=16, num_blocks=1000)
    requests = requests_of(np.linspace(0, 20, n), np.full(n, 10), output=np.full(n, 8))
    times, seen = table(8, 512, decode_s=0.01, step_s=0.01), list[int]()
    whole = simulate(ReplicaArrays(times, limits), requests=requests, watch=lambda done, _: seen.append(done))
    assert not whole.partial and seen[-1] == n and seen == sorted(set(seen))
    assert sum(whole.last_s[done - 1] > 20 for done in seen) > 5, "the drain is one call"

    def stop(done: int, _: int) -> None:
        if done > n // 2:
            raise KeyboardInterrupt

    found = simulate(ReplicaArrays(times, limits), requests=requests, watch=stop)
    answered = np.isfinite(found.last_s)
    assert found.partial and n // 2 < answered.sum() < n
    assert (found.last_s[answered] == whole.last_s[answered]).all()


def test_drafts_shorten_answers_by_what_is_accepted() -> None:
    base = Limits(max_num_seqs=1, budget=64, block_tokens=16, num_blocks=1000)
    requests = requests_of(np.zeros(1), np.array([10]), output=np.array([8001]))
    times = table(1, 80, decode_s=0.01, step_s=0.01)
    alone = simulate(ReplicaArrays(times, base), requests=requests)
    drafted = simulate(ReplicaArrays(times, base._replace(speculative=3, acceptance=0.7)), requests=requests)
    expected = (1 - 0.7**4) / (1 - 0.7)
    assert alone.tpot_s[0] / drafted.tpot_s[0] == pytest.approx(expected, rel=0.03)
