"""What was measured is kept: once, whatever happens to the writer, in either database, and by older versions too."""

import contextlib
import json
import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.command import answered
from tests.command import told as command
from tests.measure.history import killed
from tests.measure.stub import Stub, serving
from tests.patience import PATIENCE_S
from tonnage.cli import root
from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Latency, Measurement, Point
from tonnage.errors import BadFact, BadRequest, TonnageError
from tonnage.measure import history
from tonnage.measure.history import Place, entries, entry, export, place_of, remember

DATA = Path(__file__).parents[2] / "data" / "measure"


def measurement(**changes: object) -> Measurement:
    fields = {
        "schema": MEASUREMENT_SCHEMA,
        "tool": "t",
        "tool_version": "1",
        "model": "m",
        "url": "http://127.0.0.1:1",
        "date": "2026-11-21T10:00:00+00:00",
        "points": (Point(completed=3, requests_per_s=2.0),),
    }
    return Measurement(**{**fields, **changes})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(path=tmp_path / "deep" / "history.sqlite")


def test_what_goes_in_comes_out_once(place: Place) -> None:
    first = remember(measurement(), place=place)
    assert remember(measurement(), place=place) == first
    second = remember(measurement(model="n", date="2026-11-22T10:00:00+00:00"), place=place)
    listed = entries(place)
    assert [one.id for one in listed.entries] == [second, first]
    kept = entry(place, first)
    assert kept.machine and kept.versions["tonnage"] and kept.versions["t"] == "1" and kept.kind == "serve"
    assert json.loads(bytes(kept.document))["points"][0]["requests_per_s"] == 2.0
    assert [one.model for one in export(place, model="n")] == ["n"]
    with pytest.raises(BadRequest, match="no measurement 99"):
        entry(place, 99)


def test_a_store_of_an_older_version_is_brought_up_to_date_and_keeps_its_rows(place: Place) -> None:
    place.path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(place.path)) as old:
        for statement in history.MIGRATIONS[0]:
            old.execute(statement.format(number="INTEGER"))
        old.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
        old.execute("INSERT INTO schema_version VALUES (1)")
        old.execute("INSERT INTO measurement VALUES (7, 'k', 'serve', '2026-01-01', 'box', '{\"tool\": \"old\"}')")
        old.commit()
    assert [(one.id, one.model, one.versions) for one in entries(place).entries] == [(7, None, {})]
    remember(measurement(), place=place)
    assert len(entries(place).entries) == 2 and bytes(entry(place, 7).document) == b'{"tool": "old"}'


def test_a_store_of_a_later_version_is_left_alone(place: Place) -> None:
    remember(measurement(), place=place)
    with contextlib.closing(sqlite3.connect(place.path)) as store:
        store.execute("INSERT INTO schema_version VALUES (99)")
        store.commit()
    for act in (lambda: remember(measurement(model="n"), place=place), lambda: entries(place)):
        with pytest.raises(BadRequest, match="later Tonnage"):
            act()


def test_migrations_are_numbered_and_only_added_to() -> None:
    assert history.LATEST == len(history.MIGRATIONS) == 2
    assert "CREATE TABLE measurement" in history.MIGRATIONS[0][0]


def test_a_few_killed_writers_lose_nothing(place: Place) -> None:
    place.path.parent.mkdir()
    assert killed.main(4, place.path) >= 4


def test_three_writers_that_begin_a_store_at_once_all_succeed(place: Place) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.measure.history.test_history import measurement;"
        "from tonnage.measure.history import remember; from tonnage.measure.history import Place\n"
        "print(flush=True); input()\n"
        "for n in range(10): remember(measurement(model=f'{sys.argv[2]}/{n}'), place=Place(path=Path(sys.argv[1])))"
    )
    pipe = subprocess.PIPE
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(place.path), name], stdin=pipe, stdout=pipe) for name in "abc"
    ]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == b"\n"
    for child in children:
        child.communicate(b"\n", timeout=PATIENCE_S)
    assert [child.returncode for child in children] == [0, 0, 0]
    assert len(entries(place).entries) == 30


@pytest.mark.parametrize("name", ["/proc/nowhere/history.sqlite", "/dev/null/history.sqlite"])
def test_a_place_that_cannot_be_written_costs_one_sentence_and_not_the_measurement(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TONNAGE_HISTORY", name)
    result = command("measure", "import", str(DATA / "vllm_bench_0.32.0.json"))
    assert result.exit_code == 0 and result.stdout
    assert result.stderr.count("\n") == 1 and "not kept" in result.stderr and "TONNAGE_HISTORY" in result.stderr


def test_a_full_disk_is_one_sentence_and_the_store_still_opens(place: Place) -> None:
    remember(measurement(), place=place)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
        "from pathlib import Path; from tests.measure.history.test_history import measurement\n"
        "from tonnage.measure.history import remember; from tonnage.measure.history import Place\n"
        "from tonnage.errors import BadRequest\n"
        "try: remember(measurement(notes=('x' * 200_000,)), place=Place(path=Path(sys.argv[1])))\n"
        "except BadRequest as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(place.path)], capture_output=True, text=True, check=True)
    assert "cannot be used" in done.stdout and done.stdout.count("\n") == 1, done.stdout + done.stderr
    assert len(entries(place).entries) == 1


def test_a_file_that_is_no_store_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(b"not a database at all, but long enough to be taken for one" * 20)
    for act in (lambda: entries(Place(path=path)), lambda: remember(measurement(), place=Place(path=path))):
        with pytest.raises(BadFact, match="is no SQLite file"):
            act()


def test_what_was_measured_is_kept_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONNAGE_HISTORY", str(tmp_path / "h.sqlite"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    runner = CliRunner()
    assert runner.invoke(root, ["history", "list"]).exit_code == 2
    with serving(Stub()) as url:
        done = runner.invoke(
            root,
            [
                "measure",
                "serve",
                url,
                "--model",
                "m",
                "--concurrency",
                "2",
                "--requests",
                "10",
                "--output-tokens",
                "4",
                "--output",
                str(tmp_path / "a.jsonl"),
            ],
        )
    assert done.exit_code == 0, done.stderr
    listed = runner.invoke(root, ["history", "list", "--json"])
    (found,) = json.loads(listed.stdout)["entries"]
    assert found["kind"] == "serve" and found["model"] == "m" and found["machine"] and found["versions"]["tonnage"]
    assert "1 measurement in" in runner.invoke(root, ["history", "list"]).stdout
    shown = runner.invoke(root, ["history", "show", str(found["id"])])
    assert "10 requests answered" in shown.stdout
    path = tmp_path / "again.json"
    path.write_text(runner.invoke(root, ["history", "show", str(found["id"]), "--json"]).stdout)
    assert "10 requests answered" in runner.invoke(root, ["measure", "import", str(path)]).stdout
    lines = runner.invoke(root, ["history", "export"]).stdout.splitlines()
    assert len(lines) == 1 and json.loads(lines[0])["document"]["points"]  # the same measurement is kept once
    for file in tmp_path.rglob("*"):
        assert b"sk-very-secret" not in file.read_bytes()


def test_off_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONNAGE_HISTORY", "off")
    done = command("measure", "import", str(DATA / "vllm_bench_0.32.0.json"))
    assert done.exit_code == 0 and not done.stderr
    assert place_of() is None


def test_passwords_stay_out_of_sentences() -> None:
    place = place_of("postgresql://me:sesame@127.0.0.1:1/tonnage")
    assert "sesame" not in place.shown
    pytest.importorskip("psycopg")
    with pytest.raises(BadRequest) as caught:
        entries(place)
    assert "sesame" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Place]:
    """A server of its own, where Debian's PostgreSQL is installed."""
    pytest.importorskip("psycopg", reason="pip install 'tonnage[postgres]'")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    owner: dict[str, object] = {}
    home = Path(tempfile.mkdtemp(prefix="tonnage-postgres-"))
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        user = pwd.getpwnam("postgres")
        os.chown(home, user.pw_uid, user.pw_gid)
        owner = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": home, **owner}
    subprocess.run(
        [folders[-1] / "initdb", "-D", home / "data", "-A", "trust", "-U", "tester", "-N"], check=True, **quiet
    )
    server = subprocess.Popen(
        [folders[-1] / "postgres", "-D", home / "data", "-p", str(port), "-h", "127.0.0.1", "-k", home], **quiet
    )
    try:
        place = Place(url=f"postgresql://tester@127.0.0.1:{port}/postgres")
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                with history.open_store(place, write=False):
                    break
            except TonnageError:
                assert time.monotonic() < end
                time.sleep(0.1)
        yield place
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
        shutil.rmtree(home, ignore_errors=True)


def test_postgresql_keeps_the_same(postgres: Place) -> None:
    with pytest.raises(BadRequest, match="no measurements yet"):
        entries(postgres)
    first = remember(measurement(), place=postgres)
    assert remember(measurement(), place=postgres) == first
    remember(measurement(model="n", date="2026-11-22T10:00:00+00:00"), place=postgres)
    assert [one.model for one in entries(postgres).entries] == ["n", "m"]
    assert [one.model for one in entries(postgres, model="m", kind="serve").entries] == ["m"]
    assert json.loads(bytes(entry(postgres, first).document))["model"] == "m"
    with history.open_store(postgres, write=True) as store:
        assert history.schema_version(store) == history.LATEST


def test_postgresql_of_an_older_version_is_brought_up_to_date(postgres: Place) -> None:
    with history.open_store(postgres, write=True) as store:
        store.run("DROP TABLE measurement, schema_version")
        store.run(history.MIGRATIONS[0][0].format(number="BIGINT GENERATED BY DEFAULT AS IDENTITY"))
        store.run("CREATE TABLE schema_version (version INTEGER NOT NULL)")
        store.run("INSERT INTO schema_version VALUES (1)")
        store.run("INSERT INTO measurement VALUES (7, 'k', 'serve', '2026-01-01', 'box', '{}')")
    assert remember(measurement(), place=postgres) != 7
    assert {one.id for one in entries(postgres).entries} >= {7}


@pytest.mark.parametrize(
    "damage",
    [
        "document = '{\"schema\": '",
        "document = '[1]'",
        "document = CAST(x'7bff7d' AS TEXT)",
        "document = x'7b7d'",
        "versions = 'no'",
        "versions = '{\"python\": 3}'",
        "kind = 5.5, machine = x'00'",
    ],
)
def test_a_damaged_row_is_named_and_the_others_come_out(place: Place, tmp_path: Path, damage: str) -> None:
    numbers = [remember(measurement(model=name), place=place) for name in ("a", "b", "c")]
    with contextlib.closing(sqlite3.connect(place.path)) as store:
        store.execute(f"UPDATE measurement SET {damage} WHERE id = ?", (numbers[1],))
        store.commit()
    told: list[tuple[int, str]] = []
    assert [one.id for one in export(place, damaged=lambda *what: told.append(what))] == [numbers[0], numbers[2]]
    assert [number for number, _ in told] == [numbers[1]] and f"measurement {numbers[1]} in" in told[0][1]
    listed = entries(place)
    assert len(listed.entries) + len(listed.damaged) == 3
    with pytest.raises(BadFact, match=f"measurement {numbers[1]} in .* is damaged"):
        entry(place, numbers[1])
    out = tmp_path / "out.jsonl"
    done = command("history", "--db", str(place.path), "export", "-o", str(out))
    assert done.exit_code == 2 and f"left out: history: measurement {numbers[1]}" in done.output
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [numbers[0], numbers[2]]


def test_two_runs_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "history.sqlite"
    monkeypatch.setenv("TONNAGE_HISTORY", str(store))
    kept = Place(path=store)
    for tpot, model in ((0.020, "m"), (0.0205, "m"), (0.030, "other")):
        point = Point(
            concurrency=4, requests=40, completed=40, prompt_tokens=100.0, output_tokens=10.0,
            ttft_s=Latency(mean=0.1), tpot_s=Latency(mean=tpot), cached_share=0.0,
        )  # fmt: skip
        remember(replace(measurement(model=model), points=(point,)), place=kept)
    same = answered("history", "compare", 1, 2)
    assert "agree within 5" in same["sentence"] and not same.get("differs")
    moved = answered("history", "compare", 1, 3)
    (tpot_s,) = [pair for pair in moved["pairs"] if pair["name"] == "tpot_s"]
    assert tpot_s["ratio"] == pytest.approx(1.5) and ["model", "m", "other"] in moved["differs"]
    shown = command("history", "compare", 1, 3)
    assert shown.exit_code == 0 and "1.500" in shown.output and "TPOT" in shown.output
    assert command("history", "compare", 1, 9).exit_code == 2


def test_a_calibration_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TONNAGE_HISTORY", str(tmp_path / "history.sqlite"))
    asked = ["calibrate", "--model", "8B", "--accelerator", "L4", "--engine", "vllm", "--isl", 512, "--osl", 64]
    file = tmp_path / "home" / "tonnage" / "catalog" / "calibration-l4-vllm.toml"
    assert command(*asked, "--point", "TPOT 70 ms at 1 clients").exit_code == 0
    first = file.read_bytes()
    assert command(*asked, "--point", "TPOT 90 ms at 1 clients").exit_code == 0
    assert file.read_bytes() != first
    assert "counts again" in command("history", "undo", "L4", "vllm").output and file.read_bytes() == first
    assert "none counts now" in command("history", "undo", "L4", "vllm").output and not file.exists()
    assert command("history", "undo", "L4", "vllm").exit_code == 2
    assert [entry["kind"] for entry in answered("history", "list")["entries"]] == ["calibrate", "calibrate"]
