"""Several processes send one schedule, or a load that no client of this machine could send is refused."""

from pathlib import Path

import pytest

from tests.measure.stub import Stub, serving
from tonnage.domain.measurement import Load
from tonnage.errors import BadRequest
from tonnage.measure import clients
from tonnage.measure.clients import Clients, Cost, client_cost, clients_for
from tonnage.measure.records import Spec, read_log
from tonnage.measure.serve import measure_serve

COST = Cost(request_s=2e-4, token_s=2e-5)


def load(rate_per_s: float, requests: int = 40) -> Load:
    return Load(rate_per_s=rate_per_s, requests=requests, warmup=0, duration_s=60.0)


def spec(url: str, asked: Load) -> Spec:
    return Spec(url=url, kind="chat", model="m", load=asked, prompt_tokens=8, output_tokens=3, timeout_s=60.0)


def test_as_many_processes_as_a_rate_needs() -> None:
    assert [clients_for(load(rate), 4, cost=COST, cores=4) for rate in (10.0, 1000.0, 2000.0, 6000.0)] == [1, 1, 2, 4]
    assert clients_for(Load(concurrency=4000, requests=9, duration_s=9.0), 512, cost=COST, cores=1) == 1


def test_what_all_cores_cannot_send_is_refused_with_what_they_can() -> None:
    with pytest.raises(BadRequest, match=r"need 2\.9 cores .* with 2 it sends at most 548/s .* several machines"):
        clients_for(load(2000.0), 64, cost=COST, cores=2)
    assert clients_for(load(547.0), 64, cost=COST, cores=2) == 2


def test_a_load_beyond_the_machine_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "client_cost", lambda: COST)
    with serving(Stub()) as url, pytest.raises(BadRequest, match="--rate"):
        measure_serve(spec(url, load(90_000.0)), tmp_path / "run.jsonl")
    assert not (tmp_path / "run.jsonl").exists()


def test_a_sweep_is_refused_for_its_highest_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "client_cost", lambda: COST)
    asked = Spec(
        url="http://127.0.0.1:1",
        kind="chat",
        model="m",
        load=load(1.0),
        sweep="rate",
        most=90_000.0,
        prompt_tokens=8,
        output_tokens=3,
    )
    with pytest.raises(BadRequest, match="90,000 requests/s"):
        Clients(asked, tmp_path / "run.jsonl")


def test_the_rehearsal_measures_what_tokens_cost() -> None:
    found = client_cost()
    assert 1e-6 < found.request_s < 0.1 and 0.0 <= found.token_s < found.request_s


def test_processes_share_the_schedule_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same arrivals, each sent once, whoever sends it."""
    times = {}
    for number in (1, 2):
        monkeypatch.setattr(clients, "client_cost", lambda: COST)
        monkeypatch.setattr(clients, "clients_for", lambda *_, number=number, **__: number)
        path = tmp_path / f"{number}.jsonl"
        with serving(Stub()) as url:
            found = measure_serve(spec(url, load(60.0)), path)
        outcomes = sorted(read_log(path).of_stage(0), key=lambda one: one.index)
        assert [one.index for one in outcomes] == list(range(40)) and found.points[0].completed == 40
        times[number] = [one.intended_s for one in outcomes]
    assert times[1] == times[2]


def test_a_process_that_dies_stops_the_stage(tmp_path: Path) -> None:
    class Gone:
        def recv(self) -> None:
            raise EOFError

    stop = clients._lead([Gone()])  # type: ignore[list-item]
    assert stop.fatal and "ended" in str(stop.reason)


def test_a_failing_server_stops_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "client_cost", lambda: COST)
    monkeypatch.setattr(clients, "clients_for", lambda *_, **__: 2)
    with serving(Stub(fault=lambda n: "500" if n > 3 else "")) as url:
        found = measure_serve(spec(url, load(200.0, requests=2_000)), tmp_path / "run.jsonl")
    assert "in a row failed" in str(found.stopped)
