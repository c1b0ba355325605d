"""Ctrl-C gives the best so far once there is one, and interrupts as ever before, again, and outside."""

import signal
from datetime import date
from typing import Any

import pytest

from tonnage.cli import main
from tonnage.core.stop import Abandoned, abandoned_at_stop, best_is_known, ends_at_best, stop_asked
from tonnage.questions.serve import capacity_search
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import serve_request


def test_before_an_answer_is_known_ctrl_c_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), ends_at_best():
        signal.raise_signal(signal.SIGINT)


def test_with_an_answer_known_the_first_ctrl_c_asks_and_the_second_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ends_at_best():
        best_is_known()
        assert not stop_asked()
        signal.raise_signal(signal.SIGINT)
        assert stop_asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert not stop_asked() and signal.getsignal(signal.SIGINT) is before


REQUESTS = {
    "fleet": (
        "plan: fleet\nprovider: gcp\nregion: europe-west4\naccelerator: L4\nworkloads:\n"
        "  - {name: chat, model: meta-llama/Llama-3.1-8B-Instruct, rate: 2/s, traffic: chat, ttft: 1 s, tpot: 80 ms}\n"
    ),
    "serve": (
        "plan: serve\nmodel: meta-llama/Llama-3.1-8B-Instruct\nrate: 2/s\ntraffic: chat\nttft: 1 s\ntpot: 80 ms\n"
        "accelerator: L4\n"
    ),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_stopped_plan_is_the_best_so_far_and_says_so(
    kind: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = {"fleet": "tonnage.questions.fleet.plan", "serve": "tonnage.questions.serve.decide"}[kind]

    def known_and_stopped() -> None:
        best_is_known()
        signal.raise_signal(signal.SIGINT) if not stop_asked() else None

    monkeypatch.setattr(f"{where}.best_is_known", known_and_stopped)
    monkeypatch.setattr("sys.argv", ["tonnage", "plan", f"{tmp_path}/asked.yaml", "--json"])
    with open(f"{tmp_path}/asked.yaml", "w", encoding="utf-8") as file:
        file.write(REQUESTS[kind])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert ended.value.code == 130
    assert '"feasible": true' in told.out and '"unfinished": "stopped by Ctrl-C' in told.out
    assert "the best found so far" in told.err


def test_what_is_under_way_is_broken_off_and_only_there() -> None:
    with ends_at_best():
        best_is_known()
        with pytest.raises(Abandoned), abandoned_at_stop():
            signal.raise_signal(signal.SIGINT)
        assert stop_asked()
    with ends_at_best(), abandoned_at_stop(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_in_the_middle_of_a_simulation_ends_with_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    request = serve_request(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "rate": "2/s",
            "traffic": "chat",
            "ttft": "1 s",
            "tpot": "80 ms",
            "accelerator": "L4",
        }
    )
    found = capacity_search.arrays_of

    def stopped_there(*given: Any, **named: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return found(*given, **named)

    monkeypatch.setattr(capacity_search, "arrays_of", stopped_there)
    with ends_at_best():
        plan = plan_serve(request, today=date(2026, 11, 21))
    assert plan.feasible and plan.options[0].capacity.simulated is None
