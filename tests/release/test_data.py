"""`tonnage data` against a local server: newer data comes in, what is not whole or not signed stays out."""

import hashlib
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import Result
from tests.command import told as command
from tools.data_release import archive_bytes, build, pack, public_key, sign

from tonnage.catalog import rows
from tonnage.data import update
from tonnage.data.archive import install, tables_of

SEED, OTHER = bytes(range(32)), bytes(32)
SOON, LATER = "2099.01.01", "2099.02.01"
PRICES = "offers/listed/prices.csv"


class Server(NamedTuple):
    """A folder over HTTP; answers can be told to break off."""

    url: str
    folder: Path
    breaks: list[int]
    """Bytes after which the next answers end."""
    asked: list[str]
    """Path and range of each question."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder, breaks, asked, ended = tmp_path / "www", list[int](), list[str](), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path + self.headers.get("Range", ""))
            moved, path = self.path.startswith(("/moved/", "/away/")), "/" + self.path.split("/", 2)[-1]
            if moved:
                away = f"http://localhost:{http.server_port}" if self.path.startswith("/away/") else ""
                self.send_response(302)
                self.send_header("Location", away + path)
                self.end_headers()
                return
            if self.path.startswith("/slow-"):
                self.dribble()
                return
            file = folder / self.path.lstrip("/")
            if not file.is_file():
                self.send_error(404)
                return
            data, start = file.read_bytes(), int(self.headers.get("Range", "bytes=0-")[6:-1])
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            most = breaks.pop(0) if breaks and self.path.endswith(".zip") else len(data)
            self.wfile.write(data[start : start + most])

        def dribble(self) -> None:
            """A byte now and then, until nobody listens."""
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            try:
                while not ended.wait(0.02):
                    self.wfile.write(b"{")
            except OSError:
                pass

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield Server(f"http://127.0.0.1:{http.server_port}", folder, breaks, asked)
        ended.set()
        http.shutdown()


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TONNAGE_DATA_FOLDER", str(tmp_path / "mine"))
    monkeypatch.setenv("TONNAGE_DATA_KEY", public_key(SEED).hex())
    for name in ("TONNAGE_DATA", "TONNAGE_DATA_URL", "TONNAGE_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    rows.choose_data.cache_clear()
    yield
    for name, module in list(sys.modules.items()):  # tables read while other data was in use
        if name.startswith("tonnage."):
            for kept in vars(module).values():
                getattr(kept, "cache_clear", lambda: None)()


def publish(server: Server, version: str, *, factor: float = 0.9, seed: bytes = SEED) -> Path:
    """A release in which the first shipped price is another."""
    tables = server.folder.parent / f"tables-{version}"
    text = tables_of(None)[PRICES].decode()
    head, first, rest = text.split("\n", 2)
    cells = first.split(",")
    cells[3] = f"{float(cells[3]) * factor:.4f}"
    for name, data in tables_of(None).items():
        if name.startswith("offers/"):
            (tables / name).parent.mkdir(parents=True, exist_ok=True)
            (tables / name).write_bytes(data)
    (tables / PRICES).write_text("\n".join((head, ",".join(cells), rest)), encoding="utf-8", newline="\n")
    return build(tables, out=server.folder, seed=seed, version=version)


def run(*arguments: str) -> Result:
    rows.choose_data.cache_clear()
    return command("data", *arguments)


def words(result: Result) -> str:
    return " ".join((result.stdout + result.stderr).split())


def in_use() -> str:
    rows.choose_data.cache_clear()
    return rows.choose_data().version


def test_an_update_is_installed_used_listed_and_compared(server: Server) -> None:
    publish(server, SOON)
    done = run("update", "--from", server.url)
    assert done.exit_code == 0 and f"Data {SOON} is installed" in words(done)
    assert in_use() == SOON and f"Data {SOON}" in words(run())
    diff = json.loads(run("diff", "--json").stdout)
    (table,) = diff["tables"]
    assert table["name"] == PRICES and table["changed"] == 1 and table["moved"] == pytest.approx(0.9, rel=1e-3)
    assert "whole, and signed by a known key" in words(run("verify"))


def test_the_same_tables_make_the_same_file(server: Server) -> None:
    first = publish(server, SOON).read_bytes()
    (server.folder / "index.json").unlink()
    assert publish(server, SOON).read_bytes() == first


def test_an_interrupted_update_keeps_what_came_and_goes_on(server: Server) -> None:
    size = publish(server, SOON).stat().st_size
    server.breaks.append(1000)
    broken = run("update", "--from", server.url)
    assert broken.exit_code == 2 and f"broke off after 1,000 of {size:,} bytes" in broken.stderr
    assert "what is installed stays" in broken.stderr and "Traceback" not in broken.stderr
    assert in_use() == rows.shipped_version()
    assert run("update", "--from", server.url).exit_code == 0
    assert server.asked[-1] == f"/tonnage-data-{SOON}.zipbytes=1000-" and in_use() == SOON


@pytest.mark.parametrize("damage", ["signature", "content", "index"])
def test_what_is_not_whole_or_not_signed_is_not_used(server: Server, damage: str) -> None:
    file = publish(server, SOON)
    assert run("update", "--from", server.url).exit_code == 0
    file = publish(server, LATER, seed=SEED)
    index = server.folder / "index.json"
    if damage == "signature":
        (server.folder / "index.json").unlink()
        file = publish(server, LATER, seed=OTHER)
        first = {"version": SOON, **_listed(server, SOON)}
        listed = json.loads(index.read_text())
        index.write_text(json.dumps({**listed, "releases": [first, *listed["releases"]]}))
    elif damage == "content":
        file.write_bytes(file.read_bytes()[:-100] + bytes(100))
    else:
        index.write_text("{")
    done = run("update", "--from", server.url)
    said = {"signature": "is not signed by a known key", "content": "checksum", "index": "no index of data"}[damage]
    assert done.exit_code == 2 and said in done.stderr and "what is installed stays" in done.stderr
    assert in_use() == SOON and len(rows.installed_versions()) == 1
    assert run("verify").exit_code == 0


def _listed(server: Server, version: str) -> dict[str, object]:
    data = (server.folder / f"tonnage-data-{version}.zip").read_bytes()
    return {"file": f"tonnage-data-{version}.zip", "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def test_a_mirror_stands_in_for_a_server_that_is_gone(server: Server) -> None:
    publish(server, SOON)
    done = run("update", "--from", "http://127.0.0.1:9", "--from", server.url)
    assert done.exit_code == 0 and "Not used: 'http://127.0.0.1:9/index.json' cannot be reached" in words(done)
    assert in_use() == SOON


def test_older_data_is_not_fetched_and_a_history_that_was_rewritten_is_refused(server: Server) -> None:
    publish(server, "2020.01.01")
    done = run("update", "--from", server.url)
    assert done.exit_code == 0 and "Nothing newer" in words(done) and in_use() == rows.shipped_version()
    index = server.folder / "index.json"
    listed = json.loads(index.read_text())
    listed["releases"][0]["sha256"] = "0" * 64
    index.write_text(json.dumps(listed))
    again = run("update", "--from", server.url)
    assert again.exit_code == 2 and "a release never changes" in again.stderr


def test_a_pin_holds_until_it_is_taken_back(server: Server) -> None:
    publish(server, SOON)
    assert run("update", "--from", server.url).exit_code == 0
    assert run("pin", "shipped").exit_code == 0 and in_use() == rows.shipped_version()
    publish(server, LATER, factor=0.8)
    done = run("update", "--from", server.url)
    assert done.exit_code == 0 and "Answers still come from" in words(done)
    assert in_use() == rows.shipped_version()
    assert run("pin", SOON).exit_code == 0 and in_use() == SOON
    assert run("pin", "latest").exit_code == 0 and in_use() == LATER
    wrong = run("pin", "2030.01.01")
    assert wrong.exit_code == 2 and SOON in wrong.stderr and LATER in wrong.stderr


def test_offline_a_file_does_and_a_server_is_not_asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    file = publish(server, SOON)
    monkeypatch.setenv("TONNAGE_OFFLINE", "1")
    refused = run("update", "--from", server.url)
    assert refused.exit_code == 2 and "TONNAGE_OFFLINE is set" in refused.stderr and not server.asked
    assert run("update", "--from", str(file)).exit_code == 0 and in_use() == SOON


def test_a_changed_file_of_an_installed_release_is_found(server: Server) -> None:
    assert run("update", "--from", str(publish(server, SOON))).exit_code == 0
    path = rows.folder_in(SOON) / PRICES
    path.write_text(path.read_text().replace("aws", "was", 1))
    done = run("verify")
    assert done.exit_code == 1 and f"{PRICES} is missing or was changed" in words(done)


def test_no_key_no_data(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(server, SOON)
    monkeypatch.delenv("TONNAGE_DATA_KEY")
    done = run("update", "--from", server.url)
    assert done.exit_code == 2 and "TONNAGE_DATA_KEY" in done.stderr


def test_a_release_only_adds(server: Server) -> None:
    tables = server.folder.parent / "less"
    (tables / "models").mkdir(parents=True)
    for name, data in tables_of(None).items():
        if name.startswith("models/"):
            (tables / name).parent.mkdir(parents=True, exist_ok=True)
            (tables / name).write_bytes(data)
    models = tables / "models" / "models.csv"
    lines = models.read_text(encoding="utf-8").splitlines(keepends=True)
    models.write_text("".join((lines[0], *lines[2:])), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"data is only added:\n  models/models\.csv"):
        build(tables, out=server.folder, seed=SEED, version=SOON)


def test_a_member_outside_of_the_tables_is_refused(server: Server, tmp_path: Path) -> None:
    manifest, members = pack(SOON, {"../../evil.csv": b"x"}, needs="0.1.0", before="")
    file = tmp_path / "evil.zip"
    file.write_bytes(archive_bytes(members, sign(SEED, manifest)))
    done = run("update", "--from", str(file))
    assert done.exit_code == 2 and "which no release brings" in done.stderr
    assert not list(tmp_path.rglob("evil.csv"))


def test_a_redirect_is_followed_on_the_host_that_was_named_and_on_no_other(server: Server) -> None:
    publish(server, SOON)
    away = run("update", "--from", f"{server.url}/away")
    assert away.exit_code == 2 and "leads to another host, 'localhost:" in away.stderr
    assert server.asked == ["/away/index.json"] and not rows.installed_versions()
    done = run("update", "--from", f"{server.url}/moved")
    assert done.exit_code == 0 and in_use() == SOON


def test_a_release_that_comes_too_slowly_keeps_what_came(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(server, SOON)
    index = server.folder / "index.json"
    listed = json.loads(index.read_text())
    monkeypatch.setattr(update, "RELEASE_S", 0.3)
    listed["releases"][0]["file"] = "slow-body.zip"
    index.write_text(json.dumps(listed))
    done = run("update", "--from", server.url)
    assert done.exit_code == 2 and "slow-body.zip' did not come within 0.3 s" in done.stderr
    (part,) = (rows.place() / "downloads").iterdir()
    assert part.suffix == ".part" and part.stat().st_size and not rows.installed_versions()


def release(version: str, tables: dict[str, bytes], place: Path) -> Path:
    """A signed release of a few tables, each of which may be anything."""
    manifest, members = pack(version, tables, needs="0.1.0", before="")
    place.write_bytes(archive_bytes(members, sign(SEED, manifest)))
    return place


def test_a_table_of_the_same_length_that_was_not_signed_is_refused(tmp_path: Path) -> None:
    manifest, members = pack(SOON, {PRICES: b"price 1"}, needs="0.1.0", before="")
    file = tmp_path / "changed.zip"
    file.write_bytes(archive_bytes({**members, f"data/{PRICES}": b"price 2"}, sign(SEED, manifest)))
    done = run("update", "--from", str(file))
    assert done.exit_code == 2 and "is not what the signed manifest says" in done.stderr
    assert not rows.installed_versions()


def stated(place: Path, *, table: bytes = b"a", **changes: object) -> Path:
    """A signed release of one table whose manifest says something else."""
    manifest, members = pack(SOON, {PRICES: b"a"}, needs="0.1.0", before="")
    manifest = json.dumps(json.loads(manifest) | changes).encode()
    members |= {"manifest.json": manifest, f"data/{PRICES}": table}
    place.write_bytes(archive_bytes(members, sign(SEED, manifest)))
    return place


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema": "tonnage.data/2"}, "has schema 'tonnage.data/2', but tonnage.data/1 is read"),
        ({"version": "soon"}, "has version 'soon'; expected such as"),
        ({"version": "../../2099.01.01"}, "has version '../../2099.01.01'"),
        ({"files": {PRICES: {"bytes": 300_000_000, "sha256": "0"}}}, "holds more than 200,000,000 bytes"),
        ({"files": {"offers/../x": {"bytes": 1, "sha256": "0"}}}, "holds 'offers/../x', which no release brings"),
        ({"files": {"efficiency/x": {"bytes": 1, "sha256": "0"}}}, "holds 'efficiency/x', which no release brings"),
        ({"files": {"offers/X y": {"bytes": 1, "sha256": "0"}}}, "holds 'offers/X y', which no release brings"),
        ({"needs": "99.0"}, "needs Tonnage 99.0"),
        ({"table": b"a" * 1_000_000}, "is larger than 1 bytes"),
    ],
)
def test_a_signed_manifest_is_held_to_its_bounds(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    table = changes.pop("table", b"a") if "table" in changes else b"a"
    assert isinstance(table, bytes)
    done = run("update", "--from", str(stated(tmp_path / "x.zip", table=table, **changes)))
    assert done.exit_code == 2 and says in words(done), words(done)
    assert not rows.installed_versions()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema": "tonnage.data-index/2"}, "has an index of schema 'tonnage.data-index/2'"),
        ({"releases": []}, "tonnage.data-index/1 with releases is read"),
        ({"version": "soon"}, "lists a release that cannot be one: 'soon'"),
        ({"file": "../x.zip"}, "cannot be one: '2099.01.01', '../x.zip'"),
        ({"bytes": 0}, "lists a release that cannot be one"),
        ({"bytes": 100_000_001}, "lists a release that cannot be one"),
        ({"sha256": "0" * 64}, "is not what its index says (checksum)"),
        ({}, "needs Tonnage 99.0"),
    ],
)
def test_an_index_is_held_to_its_bounds(server: Server, changes: dict[str, object], says: str) -> None:
    server.folder.mkdir(exist_ok=True)
    raw = stated(server.folder / "x.zip", needs="99.0").read_bytes()
    entry = {"version": SOON, "file": "x.zip", "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    whole = {"schema": "tonnage.data-index/1", "releases": [entry | changes]} | changes
    (server.folder / "index.json").write_text(json.dumps(whole))
    done = run("update", "--from", server.url)
    assert done.exit_code == 2 and says in words(done), words(done)
    assert not rows.installed_versions()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["update"], "--from is missing"),
        (["update", "--from", "nothing-here"], "'nothing-here' is neither a file nor an address"),
        (["update", "--from", "ftp://a/b"], "is neither a file nor an address"),
        (["pin", LATER], f"data '{LATER}' is not installed"),
    ],
)
def test_what_is_not_there_is_named(asked: list[str], says: str) -> None:
    done = run(*asked)
    assert done.exit_code == 2 and says in words(done)


def test_keys_and_their_library_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(stated(tmp_path / "x.zip"))
    monkeypatch.setenv("TONNAGE_DATA_KEY", "not-a-key")
    assert "'not-a-key' is no public key" in words(run("update", "--from", file))
    monkeypatch.setenv("TONNAGE_DATA_KEY", public_key(SEED).hex())
    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "nacl" else known(name, *more))
    assert "needs the 'data' extra" in words(run("update", "--from", file))


def test_an_older_release_under_a_newer_name_is_refused(server: Server) -> None:
    old = publish(server, SOON).read_bytes()
    assert run("update", "--from", server.url).exit_code == 0
    new = publish(server, LATER)
    new.write_bytes(old)
    index = server.folder / "index.json"
    listed = json.loads(index.read_text())
    listed["releases"][-1] |= {"sha256": hashlib.sha256(old).hexdigest(), "bytes": len(old)}
    index.write_text(json.dumps(listed))
    done = run("update", "--from", server.url)
    assert done.exit_code == 2 and f"lists {LATER}, but the file is {SOON}" in done.stderr


def test_an_index_that_dropped_a_release_is_refused_and_an_older_one_changes_nothing(server: Server) -> None:
    publish(server, SOON)
    index = server.folder / "index.json"
    older = index.read_text()
    publish(server, LATER)
    newer = json.loads(index.read_text())
    assert run("update", "--from", server.url).exit_code == 0 and in_use() == LATER
    index.write_text(older)
    done = run("update", "--from", server.url)
    assert done.exit_code == 0 and "Nothing newer" in words(done) and in_use() == LATER
    index.write_text(json.dumps({**newer, "releases": newer["releases"][1:]}))
    done = run("update", "--from", server.url)
    assert done.exit_code == 2 and f"no longer lists data {SOON}" in done.stderr and in_use() == LATER


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Whether a process that does this was killed, before its n-th change of a file or folder."""
    child = os.fork()
    if child == 0:
        left = step

        def hook(event: str, details: tuple[object, ...]) -> None:
            nonlocal left
            writes = event == "open" and isinstance(details[2], int) and details[2] & (os.O_WRONLY | os.O_RDWR)
            if writes or event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir"):
                left -= 1
                if left < 0:
                    os._exit(9)

        sys.addaudithook(hook)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed between two of its steps")
@pytest.mark.parametrize("version", [SOON, LATER], ids=["the same version", "a newer one"])
def test_killed_at_any_step_an_installation_leaves_a_whole_release(tmp_path: Path, version: str) -> None:
    keys = (public_key(SEED),)
    first = release(SOON, {PRICES: b"price 1", "offers/listed/b.csv": b"b 1"}, tmp_path / "first.zip")
    second = release(version, {PRICES: b"price 2", "offers/listed/b.csv": b"b 2"}, tmp_path / "second.zip")
    install(first, keys=keys)
    found, step = {(b"price 1", b"b 1")}, 0
    while killed_at(step, lambda: install(second, keys=keys)):
        assert "whole, and signed by a known key" in words(run("verify")) and in_use() in (SOON, version)
        assert len(rows.installed_versions()) <= 2
        folder = rows.folder_in(in_use())
        found.add(((folder / PRICES).read_bytes(), (folder / "offers/listed/b.csv").read_bytes()))
        step += 1
    assert in_use() == version and run("verify").exit_code == 0 and step > 5
    found.add(((rows.folder_in(version) / PRICES).read_bytes(), b"b 2"))
    assert found == {(b"price 1", b"b 1"), (b"price 2", b"b 2")}
    assert [path.name for path in (rows.place() / "releases").iterdir() if path.name.startswith(".")] == []
