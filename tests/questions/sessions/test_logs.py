"""A log's sessions on the command line: what is found of its second half, and what cannot be said."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.questions.sessions.test_fit import SIZE, played

from tonnage.catalog.traces import Trace
from tonnage.cli.trace import trace as command
from tonnage.errors import BadFact
from tonnage.questions.answers import charts_of
from tonnage.questions.sessions.logs import first_half, hits_over_size, trace_sessions


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
    assert found.profile is not None and found.profile.shared[0][0] == 512.0


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
