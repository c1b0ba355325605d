"""
Feed every reader bad inputs, count, and keep what it should not have done.

    python -m tools.fuzz [--inputs 1000000] [--reader NAME] [--seed 1] [--guided]
    python -m tools.fuzz --large [--inputs 120]                       files of 8 to 300 MB
    python -m tools.fuzz --answers [--inputs 2000]                    whole answers

Each reader runs in a process of its own. A finding is an exception that is no sentence, an input that takes over two
seconds of the processor, or over 500 MB that one reader needs beyond what it needed at first; it is kept in
build/fuzz, and the exit code is 1. With --guided, atheris (libFuzzer) looks for inputs that reach new code; it must be
installed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from typing import Any

from tools.fuzz.mutate import mutated
from tools.fuzz.readers import READERS, ROOT, allowed, reader

FOUND = ROOT / "build" / "fuzz"
MOST_S = 2.0
MOST_BYTES = 500 * 1000**2
SPARE_S = 600.0
"""A process silent for so long after its share of time hangs where no signal reaches it; a busy machine is slower."""


class TooLong(Exception):
    """An input took longer than it may."""


def _alarm(*_: Any) -> None:
    raise TooLong


def feed(name: str, *, inputs: int, seed: int) -> dict[str, Any]:
    """Feed one reader; returns counts and findings."""
    read, seeds, words = reader(name)
    sentences = allowed()
    pick = random.Random(f"{seed}/{name}")
    signal.signal(signal.SIGVTALRM, _alarm)
    read_once(read, seeds[0], sentences)
    floor = peak_bytes()
    told: dict[str, Any] = {"reader": name, "inputs": 0, "refused": 0, "slowest_s": 0.0, "findings": []}
    for data in itertools.chain(seeds, (mutated(pick, seeds, words) for _ in range(inputs - len(seeds)))):
        began = time.process_time()
        outcome = read_once(read, data, sentences)
        told["slowest_s"] = max(told["slowest_s"], time.process_time() - began)
        told["inputs"] += 1
        told["refused"] += outcome == "refused"
        if outcome not in {"read", "refused"} and len(told["findings"]) < 20:
            told["findings"].append({"why": outcome, "input": kept(name, data)})
    told["grown_bytes"] = peak_bytes() - floor
    if told["grown_bytes"] > MOST_BYTES:
        told["findings"].append({"why": f"{told['grown_bytes'] / 1e6:,.0f} MB", "input": ""})
    return told


def read_once(read: Any, data: bytes, sentences: tuple[type[Exception], ...]) -> str:
    """`read`, `refused`, or what went wrong."""
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_S)
    try:
        read(data)
    except sentences as wrong:
        return "refused" if str(wrong).strip() and "\n" not in str(wrong) else f"no sentence: {wrong!r}"
    except TooLong:
        return f"over {MOST_S} s"
    except (Exception, RecursionError):
        return traceback.format_exc(limit=-3)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return "read"


def peak_bytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def kept(name: str, data: bytes) -> str:
    """Where a finding's input lies."""
    import hashlib

    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return str(path.relative_to(ROOT))


def guided(name: str, *, inputs: int, seed: int) -> None:
    """Hand the process to libFuzzer; it ends it."""
    import atheris

    with atheris.instrument_imports(include=["tonnage", "msgspec", "yaml"]):
        read, seeds, words = reader(name)
        sentences = allowed()
    corpus = FOUND / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for place, data in enumerate(seeds):
        (corpus / f"seed-{place}").write_bytes(data)
    dictionary = FOUND / f"{name}.dict"
    quoted = ("".join(rf"\x{byte:02x}" for byte in word) for word in words)
    dictionary.write_text("".join(f'"{word}"\n' for word in quoted), encoding="ascii")

    def one(data: bytes) -> None:
        try:
            read(data)
        except sentences:
            return

    options = [
        f"-runs={inputs}",
        f"-seed={seed}",
        "-timeout=2",
        "-rss_limit_mb=1500",
        f"-dict={dictionary}",
        f"-artifact_prefix={FOUND / name}-",
        "-print_final_stats=1",
        "-max_len=20000",
        str(corpus),
    ]
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, help="over all readers; 1,000,000 where not given")
    parser.add_argument("--reader", action="append", choices=sorted(READERS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--guided", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--large", action="store_true", help="files of 8 MB and more instead")
    parser.add_argument("--answers", action="store_true", help="whole answers instead")
    asked = parser.parse_args()
    if asked.large or asked.answers:
        return _others(asked)
    names = asked.reader or list(READERS)
    each = max(1, -(-(asked.inputs or 1_000_000) // len(names)))
    if asked.child:
        if asked.guided:
            guided(names[0], inputs=each, seed=asked.seed)
        print(json.dumps(feed(names[0], inputs=each, seed=asked.seed)))
        return 0
    print(f"{'reader':18}{'inputs':>10}{'refused':>10}{'slowest':>10}{'memory':>10}  findings")
    total, findings = 0, 0
    for name in names:
        told = asked_child(name, inputs=each, seed=asked.seed, guide=asked.guided)
        total += told["inputs"]
        findings += len(told["findings"])
        print(
            f"{name:18}{told['inputs']:10,}{told['refused']:10,}{told['slowest_s']:9.2f}s"
            f"{told['grown_bytes'] / 1e6:8,.0f}MB  {len(told['findings'])}",
            flush=True,
        )
        for finding in told["findings"]:
            print(f"    {finding['input']}: {finding['why']}")
    print(f"{'all':18}{total:10,} inputs, {findings} findings")
    return 1 if findings else 0


def _others(asked: argparse.Namespace) -> int:
    """Large files, or whole answers."""
    if asked.large:
        from tools.fuzz.large import run as read

        count, findings = read(inputs=asked.inputs or 120, seed=asked.seed)
        print(f"{count:,} files, {len(findings)} findings")
    else:
        from tools.fuzz.answers import run as ask

        answered, refused, findings = ask(inputs=asked.inputs or 2_000, seed=asked.seed)
        print(f"{answered:,} answered, {refused:,} refused, {len(findings)} findings")
    for finding in findings:
        print(f"    {finding}")
    return 1 if findings else 0


def asked_child(name: str, *, inputs: int, seed: int, guide: bool) -> dict[str, Any]:
    """One reader in a process of its own, which may hang or die."""
    command = [
        sys.executable,
        "-m",
        "tools.fuzz",
        "--child",
        "--reader",
        name,
        "--inputs",
        str(inputs),
        "--seed",
        str(seed),
    ]
    nothing = {"reader": name, "inputs": 0, "refused": 0, "slowest_s": 0.0, "grown_bytes": 0.0}
    try:
        done = subprocess.run(
            [*command, *["--guided"] * guide],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=SPARE_S + inputs * 0.02,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
    except subprocess.TimeoutExpired:
        return {**nothing, "findings": [{"why": "hangs", "input": name}]}
    if guide:
        runs = [line.rpartition(":")[2] for line in done.stderr.splitlines() if "number_of_executed_units" in line]
        bad = [] if done.returncode == 0 else [{"why": done.stderr[-2000:], "input": name}]
        return {**nothing, "inputs": int(runs[0]) if runs else 0, "findings": bad}
    if done.returncode != 0:
        return {**nothing, "findings": [{"why": f"ended with {done.returncode}: {done.stderr[-2000:]}", "input": name}]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
