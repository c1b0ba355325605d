"""
What holds for every test: nothing leaves the machine, nothing touches the user's own files, the quick
ones run first, and what cannot run here is skipped with its reason.
"""

import ctypes.util
import itertools
import os
import shutil
import socket
from collections.abc import Generator, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import patience

ROOT = Path(__file__).parents[1]

os.environ["TONNAGE_BUSY"] = "1"  # tests run beside tests: what is measured meanwhile says so, and is no less of use

# The same examples on every machine: a failure seen once is a failure anyone can see.
settings.register_profile("tonnage", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("tonnage")

# Exported training scripts are kept texts: a search for doctests would import them, and PyTorch's sharding with them.
collect_ignore_glob = ["golden/export/*"]
# Nor are helpers that are PyTorch throughout: they hold no examples, and without PyTorch the others are still run.
collect_ignore = ["networks.py", "measure/train/training.py"]

# Folders of tests/ in the order their failures explain each other: a broken fact breaks a formula, a broken
# formula breaks a plan. A folder not named here runs in the middle.
FIRST = ("style", "units", "errors", "domain", "integrity", "catalog", "paper", "physics", "simulation")
LAST = ("property", "golden", "fuzz", "docs", "browser")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--online", action="store_true", help="run the tests that need a network")
    parser.addoption("--wall", action="store_true", help="run the tests that hold wall times of this machine")
    parser.addoption("--skipped-to", metavar="FILE", help="write what was skipped into FILE, for `pytest @FILE`")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files that differ")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--wall"):
        patience.times = 1.0


def folder_rank(path: Path) -> int:
    """The place of a test's folder in the run; docstring examples, which live in src, come first."""
    try:
        folder = path.relative_to(ROOT / "tests").parts[0].removesuffix(".py").removeprefix("test_")
    except ValueError:
        return -1
    if folder in FIRST:
        return FIRST.index(folder)
    if folder in LAST:
        return 100 + LAST.index(folder)
    return 50


def has_accelerator() -> bool:
    """Whether a driver of an accelerator is installed, asked without importing anything large."""
    return shutil.which("nvidia-smi") is not None or ctypes.util.find_library("cuda") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    online = pytest.mark.skip(reason="needs a network: run with --online")
    busy = pytest.mark.skip(reason="compares wall times, for a machine with nothing else to do: run with --wall")
    no_gpu = pytest.mark.skip(reason="needs an accelerator, and this machine has none")
    for item in items:
        if "online" in item.keywords and not config.getoption("--online"):
            item.add_marker(online)
        if "wall" in item.keywords and not config.getoption("--wall"):
            item.add_marker(busy)
        if "gpu" in item.keywords and not has_accelerator():
            item.add_marker(no_gpu)
    items.sort(key=lambda item: ("slow" in item.keywords, "measured" in item.keywords, folder_rank(item.path)))


EXAMPLES_ANSWERED = ("tests/core/test_measure_first", "tests/docs/test_request_files", "tests/report/test_screens")
"""Tests that read the answers to the examples, which one worker makes for all of them."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Workers take whole files, so that what a file makes once is made once; journeys in a browser one by one."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/browser/"):
                return nodeid
            return "examples" if nodeid.startswith(EXAMPLES_ANSWERED) else nodeid.partition("::")[0]

    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Ask once more what failed while the day changed: an answer is dated, and two of one question are compared."""
    day = date.today()
    try:
        return (yield)
    except AssertionError:
        if date.today() == day:
            raise
    names = pyfuncitem._fixtureinfo.argnames
    pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The names of skipped tests, and of modules that were skipped as a whole, one a line."""
    if path := config.getoption("--skipped-to"):
        names = sorted({report.nodeid for report in terminalreporter.getreports("skipped")})
        Path(path).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


class NetworkUsed(Exception):
    """A test that is not marked `online` tried to reach another machine."""


@pytest.fixture(autouse=True)
def no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse every connection that leaves the machine, unless the test is marked `online`."""
    if "online" in request.keywords:
        yield
        return
    connect, lookup = socket.socket.connect, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if self.family != getattr(socket, "AF_UNIX", None) and not is_local(address[0]):
            raise NetworkUsed(f"connection to {address!r}; mark the test `online` if it means to")
        connect(self, address)

    def guarded_lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_local(host):
            raise NetworkUsed(f"name look-up of {host!r}; mark the test `online` if it means to")
        return lookup(host, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_lookup)
    yield


def is_local(host: Any) -> bool:
    """Whether a host is this machine."""
    name = host.decode() if isinstance(host, bytes) else host
    return name is None or name in {"", "localhost", "::1", "0.0.0.0", "::"} or str(name).startswith("127.")


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that nobody has used, nor made: to number one on disk, all others would be listed for each test."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_folders(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test empty user folders, so that it neither reads nor writes the developer's own."""
    home = next(homes)
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(home / variable.lower()))
    for secret in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(secret, raising=False)
    # Workers that share a run are told a terminal's width: what is printed must not depend on how many there are.
    monkeypatch.delenv("COLUMNS", raising=False)


class Golden:
    """Compares a text with a kept file, or rewrites that file under --update-golden."""

    def __init__(self, folder: Path, update: bool) -> None:
        self.folder = folder
        self.update = update

    def check(self, name: str, text: str) -> None:
        """Fail unless `text` is what the file `name` beside the test holds."""
        path = self.folder / name
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists():
            pytest.fail(f"no golden file {path.relative_to(ROOT)}: run with --update-golden to keep this one")
        assert text == path.read_text(encoding="utf-8"), f"{name} moved: say why, then run --update-golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden.check(name, text)`, against files beside the test that asks."""
    return Golden(request.path.parent, bool(request.config.getoption("--update-golden")))
