"""The compiled serving loop and its plain twin agree to the last bit, and neither loses anything."""

import math
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference_loop import play
from tests.sweeps import examples

from tonnage.simulation import serving
from tonnage.simulation.loop_state import paced_lengths
from tonnage.simulation.router import Rule, Scaling, simulate_disaggregated, simulate_fleet
from tonnage.simulation.serving import Simulated, simulate
from tonnage.simulation.simulated import Limits, ReplicaArrays, Requests, StepArrays, requests_of

DELIVERY_S = 0.001


def table_of(seats: int, rows: int, *, ranks: int = 1) -> StepArrays:
    batch, row = np.arange(seats + 1.0), np.arange(rows + 1.0)
    return StepArrays(
        decode_s=0.0071 + 1e-4 * batch,
        context_s=np.full(seats + 1, 3.1e-8),
        attend_s=1e-4 + 1e-6 * batch,
        mixed_s=0.0068 + 9e-5 * row,
        head_s=1e-4 + 1e-6 * row,
        chunk_s=5e-5,
        chunk_token_s=1e-7,
        chunk_square_s=1.3e-10,
        host_s=2e-4,
        host_sequence_s=3e-6,
        host_prompt_s=2e-5,
        hidden_s=0.0075,
        ranks=float(ranks),
        uneven=math.sqrt(2.0 * ranks * math.log(ranks)),
        mixed_attention=1.54,
    )


def block_ids(pick: random.Random, prompts: list[int], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Requests of three families that share a leading part of their blocks."""
    offsets, ids = [0], []
    for i, prompt in enumerate(prompts):
        whole = prompt // size
        shared = pick.randint(0, whole)
        ids += [pick.randint(0, 2) * 100 * (k == 0) + k for k in range(shared)]
        ids += [1000 + 100 * i + k for k in range(whole - shared)]
        offsets.append(len(ids))
    return np.array(offsets), np.array(ids, dtype=int)


def workload(pick: random.Random) -> tuple[StepArrays, Limits, Requests, int | None]:
    """A scheduler of any kind, small enough to be short of everything, and requests for it."""
    n, seats, size = pick.randint(1, 40), pick.randint(1, 8), pick.choice([1, 4, 16])
    drafts, mixed, chunked = pick.choice([0, 0, 0, 2]), pick.random() < 0.6, pick.random() < 0.8
    budget = max(pick.choice([8, 16, 33, 64]), seats * (drafts + 1), 0 if chunked else 101)
    output, prompt = ([pick.randint(1, most) for _ in range(n)] for most in (40, 60))
    longest = max(-(-(o + p) // size) for o, p in zip(output, prompt, strict=True))
    hashed = pick.random() < 0.4
    host = pick.choice([0, 0, longest, 4 * longest])
    victim = pick.choice([0, 1, 2] if mixed else [0, 2])
    gather = pick.choice([0, 0, pick.randint(1, seats)])
    limits = Limits(
        max_num_seqs=seats,
        budget=budget,
        block_tokens=size,
        num_blocks=longest + pick.randint(0, 3 * longest) + (drafts + size) // size + 1,
        mixed=mixed,
        chunked=chunked,
        threshold=pick.choice([0, 0, 7]) if mixed and chunked else 0,
        whole_prompt=pick.random() < 0.3,
        reserve_output=pick.random() < 0.15,
        victim=victim,
        ranked=victim == 1,
        ratio=0.7 if victim == 2 else 0.0,
        ratio_least=0.1 if victim == 2 else 0.0,
        ratio_decay=0.01 if victim == 2 else 0.0,
        speculative=drafts,
        acceptance=0.6,
        cached_again=pick.random() < 0.5,
        ahead=pick.random() < 0.5,
        host_blocks=host,
        recall_token_s=pick.choice([0.0, 1e-4]),
        gather=gather,
        gather_s=pick.choice([0.0, 0.05, 1.0]),
    )
    clients = pick.choice([None, None, pick.randint(1, 6)])
    named = [p + o for p, o in zip(prompt, output, strict=True)] if pick.random() < 0.5 else prompt
    gaps = [pick.choice([0.0, pick.random() * pick.choice([0.01, 0.2])]) for _ in range(n)]
    requests = requests_of(
        np.zeros(n) if clients else np.cumsum(gaps),
        np.array(prompt),
        output=np.array(output),
        cached=None if hashed else np.array([pick.choice([0, 0, int(p * pick.random())]) for p in prompt]),
        priority=np.array([pick.randint(0, 2) for _ in range(n)]),
        think_s=np.array([pick.choice([0.0, pick.random() * 0.1]) for _ in range(n)]),
        blocks=block_ids(pick, named, size) if hashed else None,
    )
    times = table_of(seats, budget + seats * (drafts + 2), ranks=pick.choice([1, 1, 2, 8]))
    return times, limits, requests, clients


def compiled(case: tuple[StepArrays, Limits, Requests, int | None]) -> Simulated:
    table, limits, requests, clients = case
    return simulate(ReplicaArrays(table, limits, DELIVERY_S), requests=requests, clients=clients)


@settings(max_examples=examples(150, full=300))
@given(st.integers(0, 10**9))
def test_compiled_equals_plain_token_for_token(seed: int) -> None:
    case = workload(random.Random(seed))
    table, limits, requests, clients = case
    told = play(table, limits, requests=requests, clients=clients, delivery_s=DELIVERY_S)
    found = compiled(case)
    assert [times[0] for times in told.token_s] == found.first_s.tolist()
    assert [times[-1] for times in told.token_s] == found.last_s.tolist()
    assert told.started_s == found.started_s.tolist()
    assert told.preempted == found.preempted.tolist()
    assert told.steps == found.steps
    assert [len(times) for times in told.token_s] == paced_lengths(requests, limits).tolist()
    assert told.free_blocks == found.free_blocks == limits.num_blocks
    assert told.free_host_blocks == limits.host_blocks


@settings(max_examples=examples(60, full=150))
@given(st.integers(0, 10**9), st.integers(1, 3), st.integers(1, 50))
def test_a_run_in_pieces_is_the_same_to_the_last_bit(seed: int, replicas: int, piece: int) -> None:
    case = workload(random.Random(seed))
    whole = [np.asarray(value) for value in _facts(case, replicas)]
    with mock.patch.object(serving, "PIECE", piece):
        pieces = [np.asarray(value) for value in _facts(case, replicas)]
    for one, other in zip(whole, pieces, strict=True):
        assert one.tobytes() == other.tobytes()


def _facts(case: tuple[StepArrays, Limits, Requests, int | None], replicas: int) -> list[Any]:
    """All that a run tells, its timeline and its requests opened; of a fleet that scales where there are several."""
    table, limits, requests, clients = case
    if replicas == 1 or clients is not None:
        found = simulate(ReplicaArrays(table, limits, DELIVERY_S), requests=requests, clients=clients, every_s=0.05)
    else:
        scaling = Scaling(in_flight=2.0, fewest=0, cold_start_s=0.1, every_s=0.2, keep_s=0.3)
        found = simulate_fleet(ReplicaArrays(table, limits), requests=requests, replicas=replicas, scaling=scaling)
    nested = ("timeline", "requests")
    return [*(getattr(found, name) for name in found._fields if name not in nested), *found.timeline, *found.requests]


@settings(max_examples=examples(50, full=100))
@given(st.integers(0, 10**9), st.integers(2, 4), st.sampled_from(["round-robin", "least-loaded", "prefix-aware"]))
def test_fleets_equal_plain_ones_token_for_token(seed: int, replicas: int, rule: Rule) -> None:
    table, limits, requests, clients = workload(random.Random(seed))
    requests = requests if clients is None else requests._replace(sent_s=np.arange(len(requests.prompt)) * 0.01)
    told = play(table, limits, requests=requests, replicas=replicas, rule=rule, delivery_s=DELIVERY_S)
    found = simulate_fleet(ReplicaArrays(table, limits, DELIVERY_S), requests=requests, replicas=replicas, rule=rule)
    assert told.replica == found.replica.tolist()
    assert [times[0] for times in told.token_s] == found.first_s.tolist()
    assert [times[-1] for times in told.token_s] == found.last_s.tolist()
    assert told.free_blocks == found.free_blocks == limits.num_blocks * replicas


@settings(max_examples=examples(50, full=100))
@given(st.integers(0, 10**9), st.integers(1, 2), st.integers(1, 2))
def test_pools_apart_equal_plain_ones_token_for_token(seed: int, first: int, second: int) -> None:
    pick = random.Random(seed)
    table, limits, requests, _ = workload(pick)
    requests = requests._replace(sent_s=np.arange(len(requests.prompt)) * 0.01)
    moved = np.array([pick.random() * 0.1 for _ in requests.prompt])
    each = ReplicaArrays(table, limits)
    found = simulate_disaggregated((each, each), requests=requests, workers=(first, second), transfer_s=moved)
    ones = requests._replace(output=np.ones_like(requests.output))
    prompts = play(table, limits, requests=ones, replicas=first, rule="least-loaded")
    computed = np.array([times[0] for times in prompts.token_s])
    arrive = computed + moved
    longer = np.nonzero(requests.output > 1)[0]
    rows = longer[np.argsort(arrive[longer], kind="stable")]
    answers = requests_of(
        arrive[rows],
        requests.prompt[rows] + 1,
        output=requests.output[rows] - 1,
        cached=requests.prompt[rows],
        priority=requests.priority[rows],
    )
    joined = limits._replace(cached_again=False, mixed=True)
    told = play(table, joined, requests=answers, replicas=second, rule="least-loaded")
    seen = computed.copy()
    seen[rows] = told.started_s  # whoever waits for a seat there waits for the first token
    assert found.first_s.tolist() == seen.tolist()
    assert [times[-1] for times in told.token_s] == found.last_s[rows].tolist()
    assert [len(times) for times in told.token_s] == paced_lengths(answers, joined).tolist()


@settings(max_examples=examples(50, full=100))
@given(st.integers(0, 10**9))
def test_nothing_is_lost_and_time_runs_forward(seed: int) -> None:
    case = workload(random.Random(seed))
    found = compiled(case)
    n = len(found.requests.prompt)
    assert found.num_refused == 0
    assert np.isfinite(found.last_s).all()
    assert (found.started_s >= found.requests.sent_s + DELIVERY_S - 1e-12).all()
    assert (found.first_s > found.started_s).all() and (found.last_s >= found.first_s).all()
    computed = found.prompt_tokens + found.cached_tokens
    assert computed >= found.requests.prompt.sum()
    if not found.preempted.any():
        assert computed == found.requests.prompt.sum()
    assert found.busy_s <= found.last_s.max() + 1e-9
    assert n == 0 or found.steps > 0


@pytest.mark.parametrize(
    "change", [lambda x: x._replace(max_num_seqs=1), lambda x: x._replace(num_blocks=x.num_blocks)]
)
def test_a_request_that_never_fits_is_refused(change: Callable[[Limits], Limits]) -> None:
    limits = change(Limits(max_num_seqs=4, budget=64, block_tokens=16, num_blocks=4))
    requests = requests_of(np.array([0.0, 0.1]), np.array([60, 30]), output=np.array([10, 10]))
    found = simulate(ReplicaArrays(table_of(4, 80), limits), requests=requests)
    assert found.num_refused == 1
    assert len(found.first_s) == 1


@pytest.mark.parametrize(
    ("drafts", "acceptance", "tokens"), [(1, 0.8, 20), (1, 0.8, 1000), (3, 0.7, 200), (5, 0.4, 60)]
)
def test_an_answer_with_drafts_takes_as_many_steps_as_coins_say(drafts: int, acceptance: float, tokens: int) -> None:
    """A coin for every draft until one is not kept, against lengths at the pace that all decodes share."""
    n, pick = 4000, np.random.default_rng(1)
    kept = np.cumprod(pick.random((n, tokens, drafts)) < acceptance, axis=2).sum(axis=2)
    steps = 1 + np.argmax(np.cumsum(1 + kept, axis=1) >= tokens, axis=1)
    limits = Limits(8, 64, 16, 10**6, speculative=drafts, acceptance=acceptance)
    asked = requests_of(np.zeros(n), np.ones(n, int), output=np.full(n, tokens + 1))
    pace = sum(acceptance**k for k in range(drafts + 1))
    found = np.ceil((paced_lengths(asked, limits) - 1 - pick.random(n)) / pace)
    assert found.mean() == pytest.approx(steps.mean(), rel=0.01)
    assert found.std() == pytest.approx(steps.std(), rel=0.1)
