"""Each kind of source, for real: a Prometheus server, a live page, files; and what is none."""

import http.server
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

import tonnage
from tests.command import told
from tests.measure.diagnose import pages
from tests.measure.stub import Stub, serving
from tests.patience import PATIENCE_S
from tonnage.domain.measurement import Load
from tonnage.errors import BadFact, BadRequest, TonnageError
from tonnage.measure.diagnose.sources import Watch, diagnose
from tonnage.measure.history import place_of, remember
from tonnage.measure.importers import read_report
from tonnage.measure.metrics import EXPORTERS, all_names, reading_of
from tonnage.measure.records import Spec, read_log
from tonnage.measure.serve import measure_serve
from tonnage.web.tool_results import call
from tonnage.web.tools import tool_list

DATA = Path(__file__).parents[2] / "data" / "measure"


@contextmanager
def exporter(page: Callable[[float], str]) -> Iterator[str]:
    """The address of a metrics page that depends on the seconds since its first look."""
    start: list[float] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not start:
                start.append(time.monotonic())
            body = page(time.monotonic() - start[0]).encode()
            self.send_response(200 if self.path == "/metrics" else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def full(seconds: float) -> str:
    """A vLLM that preempts, more and more."""
    done = 50 + int(20 * seconds)
    return pages.vllm(
        running=30, waiting=9, kv=0.98, preemptions=5 * seconds, e2e=[8.0] * done, ttft=[2.0] * done, queue=[1.0] * done
    )


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Starts Debian's Prometheus on one target, and says where it is."""
    if shutil.which("prometheus") is None:
        pytest.skip("needs Prometheus: apt-get install prometheus")
    children = []

    def start(target: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = tmp_path / "prometheus.yml"
        jobs = [{"job_name": "llm", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}]
        config.write_text(json.dumps({"scrape_configs": jobs}))
        children.append(
            subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={config}",
                    f"--storage.tsdb.path={tmp_path / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                    "--log.level=error",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        return f"http://127.0.0.1:{port}"

    yield start
    for child in children:
        child.terminate()
        child.wait(PATIENCE_S)


@pytest.mark.slow
def test_a_real_prometheus_server_says_what_its_target_did(prometheus: Callable[[str], str]) -> None:
    with exporter(full) as url:
        server = prometheus(url.removeprefix("http://"))
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                found = diagnose(server, watch=Watch(window_s=20.0))
                if found.evidence.samples and found.evidence.samples >= 5 and found.verdicts:
                    break
            except TonnageError:  # not up yet, or nothing scraped yet
                assert time.monotonic() < end
            assert time.monotonic() < end
            time.sleep(0.5)
        assert found.verdicts[0].name == "memory-capacity bound"
        assert found.evidence.engine == "vllm" and found.evidence.model == "m"
        assert diagnose(server, watch=Watch(window_s=20.0, match='job="llm"')).verdicts
        with pytest.raises(BadRequest, match="no series known here"):
            diagnose(server, watch=Watch(window_s=20.0, match='job="other"'))
        with pytest.raises(BadRequest, match="refused"):
            diagnose(server, watch=Watch(window_s=20.0, match="job=~("))


def test_a_live_page_is_looked_at_over_a_window() -> None:
    with exporter(full) as url:
        found = diagnose(url, watch=Watch(window_s=1.0, every_s=0.2))
        assert found.verdicts[0].name == "memory-capacity bound"
        assert 2 <= (found.evidence.samples or 0) <= 7
        with exporter(lambda _: pages.dcgm(tensor=0.1, dram=0.7, power_s=0.0)) as device:
            both = diagnose(url, device, watch=Watch(window_s=0.5, every_s=0.2))
        assert {verdict.name for verdict in both.verdicts} == {"memory-capacity bound", "bandwidth-bound"}
        assert both.evidence.accelerator == "NVIDIA H100 80GB HBM3"


def test_pages_are_stored_beside_the_requests_and_diagnosed_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    load = Load(concurrency=4, requests=60, duration_s=20.0)
    with (
        exporter(full) as engine,
        exporter(lambda _: pages.dcgm(tensor=0.1, dram=0.7, power_s=0.0)) as device,
        serving(Stub(ttft_s=0.1, itl_s=0.01)) as url,
    ):
        spec = Spec(url=url, kind="chat", model="m", load=load, prompt_tokens=40, output_tokens=8)
        found = measure_serve(spec, path, metrics=(engine, f"{device}/metrics"))
    log = read_log(path)
    assert {scrape.page for scrape in log.scrapes} == {f"{engine}/metrics", f"{device}/metrics"}
    assert len(log.scrapes) >= 4 and all(scrape.segment == 0 for scrape in log.scrapes)
    assert found.points[0].server.engine == "vllm"
    said = diagnose(str(path))
    names = {verdict.name for verdict in said.verdicts}
    assert {"memory-capacity bound", "bandwidth-bound"} <= names


def test_a_named_page_that_is_absent_stops_before_anything_is_measured(tmp_path: Path) -> None:
    load = Load(concurrency=1, requests=2)
    stub = Stub()
    with serving(stub) as url, serving(Stub()) as other:
        spec = Spec(url=url, kind="chat", model="m", load=load, prompt_tokens=40, output_tokens=8)
        with pytest.raises(BadRequest, match="--metrics"):
            measure_serve(spec, tmp_path / "a.jsonl", metrics=(other,))
    assert not stub.seen and not (tmp_path / "a.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "neither JSON nor a metrics page"),
        ("hello world\n", "neither JSON nor a metrics page"),
        ('{"schema": "other/1"}', "no tool known here"),
        ("[1, 2]", "no tool known here"),
        ("vllm:num_requests_running{engine=\n", "format of Prometheus"),
        ("\x00\x01\x02", "neither JSON nor a metrics page"),
    ],
)
def test_a_file_that_says_nothing_is_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(BadFact) as caught:
        diagnose(str(path))
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "source"),
        (["nowhere.json"], "neither a file nor an address"),
        (["http://127.0.0.1:9"], "connection refused"),
        (["http://user:sesame@127.0.0.1:9"], "keys do not belong"),
        (["http://127.0.0.1:9", "--window", "5"], "has no unit"),
        (["http://127.0.0.1:9", "--window", "0.001s"], "outside"),
        (["http://127.0.0.1:9", "--key-env", "NOT_SET_ANYWHERE"], "is not set"),
        ([str(DATA / "vllm_0.32.0_cpu_metrics.prom"), "--accelerator", "h100-smx"], "did you mean"),
        ([str(DATA / "vllm_0.32.0_cpu_metrics.prom"), "--baseline", str(DATA / "guidellm_0.8.1.json")], "neither json"),
    ],
)
def test_a_bad_request_is_one_sentence(arguments: list[str], says: str) -> None:
    result = told("diagnose", *arguments)
    assert result.exit_code == 2
    (sentence,) = result.stderr.strip().splitlines()
    assert sentence.startswith("tonnage: ") and says in sentence.lower().replace("sources", "source"), sentence
    assert "sesame" not in sentence


def test_the_command_python_and_the_tool_say_the_same() -> None:
    name = str(DATA / "guidellm_0.8.1.json")
    shown = told("diagnose", name, "--why")
    assert shown.exit_code == 0 and shown.stdout.startswith("Queueing: ")
    assert "Not known" in shown.stdout
    found = json.loads(told("diagnose", name, "--json").stdout)
    assert found["schema"] == "tonnage.diagnosis/1" and found["verdicts"][0]["name"] == "queueing"
    answer = tonnage.diagnose(name)
    assert answer.verdicts[0].name == "queueing" and "<table" in answer._repr_html_()
    assert "Queueing" in call("diagnose_bottleneck", {"sources": [name]}, additions=tonnage_nothing()).text
    assert "diagnose_bottleneck" in {tool.name for tool in tool_list()}
    with pytest.raises(TonnageError, match="sources"):
        call("diagnose_bottleneck", {}, additions=tonnage_nothing())
    with pytest.raises(TonnageError, match="no field"):
        call("diagnose_bottleneck", {"sources": [name], "windows": "5 s"}, additions=tonnage_nothing())


def tonnage_nothing() -> object:
    from tonnage.catalog import NOTHING

    return NOTHING


def test_a_verdict_to_change_capacity_comes_with_the_plan_that_would() -> None:
    found = tonnage.diagnose(str(DATA / "guidellm_0.8.1.json"), model="meta-llama/Llama-3.1-8B")
    assert found.plan.startswith("Rent ")
    assert found.plan_command.startswith("tonnage plan serve meta-llama/Llama-3.1-8B ")
    page = str(DATA.parents[2] / "examples" / "reports" / "vllm-metrics.prom")
    without = tonnage.diagnose(page, model="meta-llama/Llama-3.1-8B")
    assert without.plan is None and without.missing[-1].verdict == "the plan that would"
    result = told(*found.plan_command.split()[1:], "--quick")
    count, _, name = found.plan.removeprefix("Rent ").partition(" (")[0].partition(" x ")
    assert result.exit_code == 0 and re.search(rf"{count} x [\w ]*{re.escape(name)}", result.stdout)


def test_a_baseline_shows_what_got_worse(tmp_path: Path) -> None:
    def measured(name: str, ttft_s: float) -> str:
        load = Load(concurrency=2, requests=30, duration_s=20.0)
        with serving(Stub(ttft_s=ttft_s, itl_s=0.002)) as url:
            measure_serve(
                Spec(url=url, kind="chat", model="m", load=load, prompt_tokens=40, output_tokens=8), tmp_path / name
            )
        return str(tmp_path / name)

    before, after = measured("before.jsonl", 0.02), measured("after.jsonl", 0.3)
    found = diagnose(after, baseline=before)
    worse = next(verdict for verdict in found.verdicts if verdict.name == "regression")
    assert any("TTFT" in fact.name and fact.value > 2 for fact in worse.facts)
    assert not [v for v in diagnose(before, baseline=before).verdicts if v.name == "regression"]
    with pytest.raises(BadRequest, match="nothing was measured yet"):
        diagnose(after, baseline="last")
    place = place_of()
    assert place is not None
    kept = replace(read_report(Path(before)), date="2026-11-01T00:00:00+00:00")
    number = remember(kept, place=place)
    remember(read_report(Path(after)), place=place)
    for named in ("last", str(number)):
        again = diagnose(after, baseline=named)
        assert any(v.name == "regression" and v.facts == worse.facts for v in again.verdicts)
    with pytest.raises(BadRequest, match="no measurement 99"):
        diagnose(after, baseline="99")


def test_every_name_of_the_recorded_pages_is_read() -> None:
    vllm = reading_of((DATA / "vllm_0.32.0_cpu_metrics.prom").read_bytes(), at_s=0.0)
    assert vllm.engine == "vllm" and vllm.names["model"] == "tiny"
    assert set(vllm.values) | set(vllm.histograms) == set(EXPORTERS["vllm"])
    assert vllm.values["output_tokens"] == 131 and vllm.histograms["ttft_s"].count == 5
    llama = reading_of((DATA / "llamacpp_2026.10_metrics.prom").read_bytes(), at_s=0.0)
    assert llama.engine == "llama.cpp"
    assert (llama.values["running"], llama.values["waiting"]) == (2, 4)
    host = reading_of((DATA / "node_exporter_1.5.0.prom").read_bytes(), at_s=0.0)
    assert host.engine is None and 0 < host.values["cpu_idle_s"] < host.values["cpu_total_s"]
    assert "vllm:e2e_request_latency_seconds_bucket" in all_names()


def test_a_page_of_hundreds_of_megabytes_is_no_scrape() -> None:
    page = b"vllm:num_requests_running{} 1\n" * 300_000
    with pytest.raises(BadFact, match="the metrics page has 9 MB, at most 8 MB are read; give one scrape"):
        reading_of(page, at_s=0.0)
