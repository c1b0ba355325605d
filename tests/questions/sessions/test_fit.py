"""Sessions fitted from logs or stated: who continues whom, what is fitted draws the like, what a log's halves say."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.questions.sessions.test_reuse import SMALL
from tests.questions.sessions.test_roads import served
from tests.simulation.test_sessions import BRANCHING

from tonnage.catalog.traces import Trace
from tonnage.catalog.traffic import profiles, session_profiles
from tonnage.cli.trace import trace as command
from tonnage.core.session_reuse import drawn_turns, profile_of
from tonnage.domain.case import ServeResult
from tonnage.domain.sessions import CacheTier
from tonnage.domain.simulate import SimulationTraffic
from tonnage.errors import BadFact
from tonnage.questions.answers import charts_of
from tonnage.questions.explain.explain import case_of_option, explain_plan
from tonnage.questions.predict.predict import predict
from tonnage.questions.serve.question import serve_request
from tonnage.questions.sessions.logs import first_half, fit_sessions, hits_over_size, links_of, trace_sessions
from tonnage.questions.simulate.traffic import traffic_of
from tonnage.simulation.session_steady import SteadyTier, found_in, steady_turns, without_answers
from tonnage.simulation.sessions import Replicas, draw_turns, replay_hits, simulate_sessions

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


def test_a_traffic_block_states_sessions() -> None:
    block = {"profile": "coding-agent", "turns": 20, "system_prompt": 6000}
    request = serve_request({**SMALL, "traffic": block})
    profile = profile_of(request.sessions, request.lengths)
    assert profile.shared == ((6000.0, 1.0),)
    turns = steady_turns(profile)
    assert len(turns.prompt) / turns.sessions == pytest.approx(20, rel=0.15)
    assert request.lengths.prompt_tokens == pytest.approx(turns.prompt.mean())


def test_stated_lengths_stretch_what_sessions_own() -> None:
    fields = {
        **SMALL,
        "prompt_tokens": 4000,
        "output_tokens": 200,
        "turns": 6,
        "turn_gap": "15 s",
        "system_prompt": 900,
    }
    del fields["traffic"]
    request = serve_request(fields)
    profile = profile_of(request.sessions, request.lengths)
    assert profile is not None
    turns = drawn_turns(profile, prompt_tokens=4000.0, output_tokens=200.0)
    assert turns.prompt.mean() == pytest.approx(4000, rel=0.03) and (turns.shared == 900).all()
    assert turns.gap_s[turns.gap_s < 1e9].mean() == pytest.approx(15, rel=0.1)


def test_profiles_and_their_sessions_have_the_same_means() -> None:
    for name, sessions in session_profiles().items():
        lengths, turns = profiles()[name].lengths, steady_turns(sessions)
        assert turns.prompt.mean() == pytest.approx(lengths.prompt_tokens, rel=0.15), name
        assert turns.output.mean() == pytest.approx(lengths.output_tokens, rel=0.15), name
        assert sessions.source


def test_turns_of_sessions_share_the_names_of_what_they_keep() -> None:
    found = traffic_of(SimulationTraffic(profile="agent", rate_per_s=4.0, num_requests=3000)).requests
    again = replay_hits(found, block_tokens=128, blocks=200_000).sum() / found.prompt.sum()
    assert again == pytest.approx(0.58, abs=0.06)
    assert (np.diff(found.offsets) == found.prompt // 128).all()
    none = traffic_of(SimulationTraffic(profile="agent", rate_per_s=4.0, num_requests=3000, reuse=False)).requests
    assert len(none.offsets) == 1


def test_workers_that_hand_caches_over_keep_prompts_and_no_answers() -> None:
    turns = steady_turns(session_profiles()["chat-sessions"])
    apart = without_answers(turns)
    later = turns.gap_s < 1e9
    assert (apart.kept <= turns.kept).all() and (apart.kept[later] <= turns.before[later]).all()
    assert (apart.own == turns.prompt - turns.shared).all()
    everything = (SteadyTier(tokens=1e15),)
    hits = [float(found_in(one, everything, turns_per_s=1.0)[0].sum()) for one in (turns, apart)]
    answers = turns.output[turns.until_s < 1e9].sum()
    assert hits[0] - answers <= hits[1] < hits[0]


def test_an_option_is_opened_with_the_hits_that_it_was_planned_with() -> None:
    large = {"model": "meta-llama/Llama-3.1-70B-Instruct", "rate": "10/s", "ttft": "2 s", "tpot": "15 ms"}
    for plan in (served(), served(**large, provider="hyperstack", region="CANADA-1")):
        first, case = plan.options[0], case_of_option(plan, 1)
        assert case.sessions.prefix_hits == pytest.approx(1 - first.reuse.computed_tokens / 8596, abs=0.01)
        result = predict(case)
        assert isinstance(result, ServeResult) and result.ttft_s is not None
        shown = explain_plan(plan)
        assert [node.name for node in shown.numbers][:2] == ["TTFT", "TPOT"]
    near = next(node for node in (explain_plan(served()) or pytest.fail()).numbers if node.name == "TTFT")
    beyond = next((part.value for part in near.parts if part.name == "beyond the steady state"), 0.0)
    # The tree has equal lengths; what long prompts add to the mean is a part beside it, with its name.
    assert 0.0 < beyond < 0.5 * near.value


def written(log: Trace, path: Path) -> str:
    lines = [
        json.dumps(
            {
                "timestamp": round(1000 * log.sent_s[k]),
                "input_length": 8 * log.prompt[k],
                "output_length": 5,
                "hash_ids": list(log.blocks[log.offsets[k] : log.offsets[k + 1]]),
            }
        )
        for k in range(len(log.sent_s))
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(played(5000), tmp_path_factory.mktemp("log") / "gateway.jsonl")


def test_halves_of_a_steady_log_agree(gateway: str) -> None:
    found = trace_sessions(gateway)
    assert found.requests == 5000 and 1000 < found.sessions < 3000 and found.block_tokens == 512 == 8 * SIZE
    assert [at.hit_rate for at in found.curve] == sorted(at.hit_rate for at in found.curve)
    for at in found.curve:
        # Half of 5,000 requests: chance alone moves a prediction by some points.
        assert at.predicted == pytest.approx(at.hit_rate, abs=0.08), at.tokens
    assert found.profile.shared[0][0] == 512.0


def test_halves_and_sizes() -> None:
    log = played(1000)
    half = first_half(log)
    assert half.sent_s[-1] < log.sent_s[-1] / 2 <= log.sent_s[len(half.sent_s)]
    assert len(half.blocks) == half.offsets[-1]
    assert hits_over_size(log, (1, 50, 5000), since=0) == tuple(sorted(hits_over_size(log, (1, 50, 5000), since=0)))


def test_the_command_says_sessions_and_hits(gateway: str) -> None:
    said = CliRunner().invoke(command, [gateway, "--why"])
    assert said.exit_code == 0 and "sessions of" in said.output and "predicted from the first" in said.output
    assert "Shared beginnings" in said.output
    told = json.loads(CliRunner().invoke(command, [gateway, "--json"]).output)
    assert told["schema"] == "tonnage.sessions/1" and len(told["curve"]) == 6


def test_a_burst_before_a_long_silence_is_no_rate_that_goes_on(tmp_path: Path) -> None:
    """At the rate of its burst the first half would be drawn for 10^16 turns."""
    rows = [(k / 1000, [k % 7, k + 7]) for k in range(250)] + [(1e13, [1, 2])]
    lines = [{"timestamp": at, "input_length": 1000, "output_length": 5, "hash_ids": ids} for at, ids in rows]
    log = tmp_path / "burst.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)))
    assert [at.predicted is None for at in trace_sessions(str(log)).curve] == [False] * 6


def test_a_log_as_a_picture(gateway: str) -> None:
    found = trace_sessions(gateway)
    (chart,) = charts_of(found)
    assert len(chart.rows) == len(found.curve) == 6 and "hits" in chart.title
    values = chart.vega()["data"]["values"]
    assert {(row["of"], row["share"]) for row in values} >= {("second half", at.hit_rate) for at in found.curve}
    assert charts_of(replace(found, curve=())) == ()


def test_a_log_without_block_ids_and_an_empty_one(tmp_path: Path) -> None:
    plain, empty = tmp_path / "plain.csv", tmp_path / "empty.csv"
    plain.write_text("timestamp,prompt_tokens,output_tokens\n0,5,1\n1,7,1\n")
    said = CliRunner().invoke(command, [str(plain)])
    assert said.exit_code == 0 and "No block ids (hash_ids)" in said.output
    empty.write_text("timestamp,prompt_tokens,output_tokens\n")
    with pytest.raises(BadFact, match="holds no requests"):
        trace_sessions(str(empty))


def test_a_log_of_one_request_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("timestamp,prompt_tokens,output_tokens\n1,10,10\n", encoding="utf-8")
    with pytest.raises(BadFact, match="one request, of which nothing can come back"):
        trace_sessions(str(tmp_path / "one.csv"))
