"""
`make mutate`: a sample of changed formulas, each against the tests that run it; the share that is noticed.

With `--of refusals` each check of what others wrote or send is taken away in turn (Host and Origin, signatures, sizes,
names for files), and every one must be noticed.

The tests are collected once. Each change happens in a process of its own, forked from there: the function's code is
replaced where it stands, so that whoever imported it has it, and the tests that call the function run until one fails.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import math
import os
import random
import resource
import signal
import time
import traceback
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import coverage
import msgspec
import pytest
from tools.mutation.changes import Change, changed, changes_in, refusals_in

ROOT: Final = Path(__file__).parents[2]
SRC: Final = ROOT / "src/tonnage"


class Suite(NamedTuple):
    """What is changed, how, and which tests are to notice."""

    files: tuple[str, ...]
    """Patterns below the package."""
    changes: Callable[[Path], Iterator[Change]]
    tests: tuple[str, ...]
    least: float
    """Per cent of the changes that must be noticed."""
    slow_s: float
    """Tests that take longer are left out: the fast ones must notice. [CPU s]"""

    def found(self) -> list[Path]:
        """The files."""
        return sorted(path for pattern in self.files for path in SRC.glob(pattern))


SUITES: Final = {
    "formulas": Suite(
        ("physics/*.py",), changes_in, ("src/tonnage/physics", "tests/physics", "tests/paper"), least=80.0, slow_s=2.0
    ),
    "refusals": Suite(
        ("web/guard.py", "web/models.py", "data/*.py", "foreign.py", "fetch.py", "core/files.py", "adopt/*.py",
         "catalog/additions.py", "catalog/refresh.py", "catalog/trace*.py", "catalog/hub/*.py",
         "measure/importers/*.py", "export/**/*.py"),
        refusals_in,
        ("tests/web/test_refusals.py", "tests/web/test_uploads.py", "tests/release/test_data.py", "tests/test_fetch.py",
         "tests/test_foreign.py", "tests/core/test_files.py", "tests/catalog/test_traces.py", "tests/catalog/hub",
         "tests/catalog/test_additions.py", "tests/catalog/test_calibration_files.py", "tests/catalog/test_refresh.py",
         "tests/adopt", "tests/measure/test_importers.py", "tests/export"),
        least=100.0,
        slow_s=20.0,
    ),
}  # fmt: skip
SEED: Final = 1
"""Of the sample."""
CPU_S, WALL_S = (10.0, 3.0), (60.0, 30.0)
"""What a test may take, and for each second of its usual time: a loop or wait that no longer ends is noticed, too."""
MOST_BYTES: Final = 6 << 30
"""Of address space; what takes more is noticed, too."""
Lines = dict[str, dict[int, list[str]]]
"""File -> line -> the tests that run it."""
Seen = tuple[dict[str, float], Lines]
"""Tests that pass, with their seconds, and what they run."""


def main() -> None:
    """Score a sample; the exit code says whether enough was noticed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("--mutants", type=int, default=300, help="how many changes are tried (0 = all)")
    parser.add_argument("--of", choices=SUITES, default="formulas", help="what is changed")
    parser.add_argument("--only", default="", help="files whose path holds this")
    parser.add_argument("--tests", nargs="*", help="instead of the suite's own")
    asked = parser.parse_args()
    suite = SUITES[asked.of]
    files = [file for file in suite.found() if asked.only in str(file)]
    changes = [change for file in files for change in suite.changes(file)]
    if asked.mutants and asked.mutants < len(changes) and asked.of == "formulas":
        changes = sorted(random.Random(SEED).sample(changes, asked.mutants), key=lambda c: (c.file, c.line))
    code = pytest.main(
        [*(str(ROOT / path) for path in asked.tests or suite.tests), "--quiet", "--capture=no", "--timeout=0",
         "-p", "no:cacheprovider", "-m", "not slow and not measured and not online and not gpu", "--no-summary"],
        plugins=[_plugin("loop", pytest_runtestloop=lambda session: _loop(session, suite, changes))],
    )  # fmt: skip
    raise SystemExit(code)


def _loop(session: pytest.Session, suite: Suite, changes: list[Change]) -> bool:
    """In place of running the tests: run them against each change."""
    from hypothesis import Phase, settings

    settings.register_profile(
        "mutation",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=20,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.load_profile("mutation")
    items = {item.nodeid: item for item in session.items}
    seen = msgspec.json.decode(_in_a_child(lambda: _watched(session.items, suite)), type=Seen)
    print(f"{len(items)} tests, {len(seen[0])} of them fast and passing", flush=True)
    score = _score(changes, items, seen)
    session.testsfailed = int(score < suite.least)
    return True


def _score(changes: list[Change], items: dict[str, pytest.Item], seen: Seen) -> float:
    """Per cent of the changes that a test noticed; those that none did are printed."""
    noticed, by_module = 0, dict[str, list[int]]()
    seconds, lines = seen
    for tried, change in enumerate(changes):
        if tried and tried % 25 == 0:
            print(f"{noticed} of {tried} noticed so far", flush=True)
        there = lines.get(str(change.file), {})
        names = {name for line in range(change.line, change.end + 1) for name in there.get(line, ()) if name in seconds}
        tests = [items[name] for name in sorted(names, key=lambda name: (seconds[name], name))]
        code, what = _compiled(change)
        said = _in_a_child(partial(_tried, change, code, tests, seconds))
        good = said != b"unnoticed"
        noticed += good
        counts = by_module.setdefault(change.file.stem, [0, 0])
        counts[0] += good
        counts[1] += 1
        if not good:
            place = f"{change.file.relative_to(ROOT)}:{change.line} {change.function}"
            print(f"{place} ({len(tests)} tests): {what}", flush=True)
    for module, (found, all_) in by_module.items():
        print(f"{module:<20} {found:4} of {all_:4}")
    score = 100.0 * noticed / max(1, len(changes))
    print(f"{len(seconds)} tests noticed {noticed} of {len(changes)} changes: {score:.1f} %")
    return score


def _in_a_child(work: Callable[[], bytes]) -> bytes:
    """What a forked process has to say; nothing when it dies."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        errors, quiet = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            with os.fdopen(writes, "wb") as out:
                out.write(work())
        except BaseException:
            os.write(errors, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as said:
        answer = said.read()
    os.waitpid(child, 0)
    return answer


def _watched(tests: list[pytest.Item], suite: Suite) -> bytes:
    """Which lines of the suite's files each test runs, and for how long."""
    cover = coverage.Coverage(data_file=None, config_file=False, include=[str(file) for file in suite.found()])
    seconds: dict[str, float] = {}
    cover.start()
    for item in tests:
        cover.switch_context(item.nodeid)
        start = time.process_time()
        passed = _passes(item)
        spent = time.process_time() - start
        if passed and spent < suite.slow_s:
            seconds[item.nodeid] = spent
    cover.stop()
    data = cover.get_data()
    return msgspec.json.encode((seconds, {file: data.contexts_by_lineno(file) for file in data.measured_files()}))


def _compiled(change: Change) -> tuple[types.CodeType, str]:
    """The changed function's code, and what was changed."""
    tree, what = changed(change)
    whole = compile(tree, str(change.file), "exec")
    return next(code for code in _codes(whole) if code.co_qualname == change.function), what


def _tried(change: Change, code: types.CodeType, tests: list[pytest.Item], usual_s: dict[str, float]) -> bytes:
    module = ".".join(change.file.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__")
    _replace(importlib.import_module(module), change.function, code)
    for item in tests:
        for limit, (least, times) in ((_stop_after_cpu, CPU_S), (signal.alarm, WALL_S)):
            limit(math.ceil(least + times * usual_s[item.nodeid]))
        if not _passes(item):
            return b"noticed"
    return b"unnoticed"


def _stop_after_cpu(seconds: int) -> None:
    """End this process by a signal after so much more work."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, most))


def _replace(module: types.ModuleType, name: str, code: types.CodeType) -> None:
    """Give a function, method or property of a module other code."""
    holder: Any = module
    *outer, last = name.split(".")
    for part in outer:
        holder = getattr(holder, part)
    found = inspect.getattr_static(holder, last)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, staticmethod | classmethod):
        found = found.__func__
    inspect.unwrap(found).__code__ = code


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def _passes(item: pytest.Item) -> bool:
    """Whether a test passes; a skipped one does."""
    failed: list[str] = []

    def hear(report: pytest.TestReport) -> None:
        if report.failed:
            failed.append(report.nodeid)

    plugin = _plugin("hear", pytest_runtest_logreport=hear)
    item.config.pluginmanager.register(plugin)
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    item.config.pluginmanager.unregister(plugin)
    return not failed


def _plugin(name: str, **hooks: Callable[..., Any]) -> types.ModuleType:
    """Something pytest calls: a module will do."""
    made = types.ModuleType(name)
    vars(made).update(hooks)
    return made


if __name__ == "__main__":
    main()
