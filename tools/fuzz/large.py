"""
Files of 8 to 300 MB, each of one shape that once took too long: every reader answers or refuses in time and memory.

    python -m tools.fuzz --large [--inputs 40] [--seed 1]

A shape is a piece of text repeated, in a frame that the format opens and closes, sometimes packed. Each file is read in
a process of its own, because memory is counted by the process. A finding is a traceback, more than 5 s of the
processor (for traces 25 MB/s where that is longer), or more than 500 MB.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.fuzz.readers import ROOT

MOST_S = 5.0
TRACE_BYTES_PER_S = 25e6
MOST_BYTES = 500e6
SMALLEST, LARGEST = 8, 300
"""Of a file, unpacked. [MB]"""
PIECE = 1 << 20


class Shape(NamedTuple):
    """A frame, and what is repeated in it."""

    reader: str
    name: str
    begins: bytes
    repeated: bytes
    ends: bytes = b""
    packed: bool = False


def _gguf(kind: int, *, count: int) -> bytes:
    """The begin of a GGUF header with one list of `count` items of a kind."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, kind, count)


_TENSOR = struct.pack("<Q", 1) + b"t" + struct.pack("<IQIQ", 1, 32, 0, 0)
_LINE = b'{"timestamp": 0, "input_length": 9, "output_length": 5, "hash_ids": [%b]}\n' % b",".join([b"1"] * 400)
_USAGE = b'{"created": 1, "usage": {"prompt_tokens": 12, "completion_tokens": 3}, "text": "%b"}\n' % (b"x" * 900)
_HEAD = b"time,prompt_tokens,output_tokens\n"
_DATED = b"2023-11-16 18:15:46.6805900,374,44\n"

SHAPES = (
    *(Shape("requests", name, b"a: [", piece, b"]")
      for name, piece in (("lists", b"[],"), ("numbers", b"1,"), ("groups", b"{},"), ("texts", b'"x",'))),
    Shape("requests", "lines", b"", b"- 1\n"), Shape("requests", "nested", b"a: ", b"["),
    Shape("requests", "comments", b"", b"#\n"), Shape("requests", "one text", b"a: ", b"x"),
    *(Shape("request-json", name, b'{"a": [', piece, b"1]}")
      for name, piece in (("lists", b"[],"), ("numbers", b"1,"), ("groups", b'{"a":1},'), ("texts", b'"x",'))),
    Shape("cases-yaml", "lists", b"", b"- []\n"), Shape("cases-json", "lists", b"[", b"[],", b"1]"),
    Shape("cases-json", "groups", b"[", b'{"a":1},', b"1]"),
    Shape("gguf", "tensors", b"GGUF" + struct.pack("<IQQ", 3, 1_000_000, 0), _TENSOR),
    Shape("gguf", "tensors within the limit", b"GGUF" + struct.pack("<IQQ", 3, 60_000, 0), _TENSOR),
    Shape("gguf", "empty texts", _gguf(8, count=16_000_000), bytes(8)),
    Shape("gguf", "empty texts within the limit", _gguf(8, count=1_900_000), bytes(8)),
    Shape("gguf", "numbers", _gguf(0, count=16_000_000), bytes(8)),
    Shape("safetensors", "a header of lists", (24_000_000).to_bytes(8, "little") + b'{"a": [', b"[],"),
    Shape("config.json", "lists", b'{"a": [', b"[],", b"1]}"),
    *(Shape("trace", name, head, piece, packed=packed) for packed in (False, True) for name, head, piece in (
        ("empty lines", b"", b"\n"), ("spaces", b"", b" \n"), ("short rows", _HEAD, b"0,1,1\n"),
        ("dates", _HEAD, _DATED), ("quoted", _HEAD, b'"0","1","1"\n'), ("block ids", b"", _LINE),
        ("texts", b"", _USAGE),
        ("one line", _HEAD, b"0"),
    )),
    *(Shape("reports", name, b"[", piece, b"1]")
      for name, piece in (("lists", b"[],"), ("numbers", b"1,"), ("groups", b'{"a":1},'))),
    Shape("reports", "lines", b"", b"{}\n"),
    Shape("kineto", "events", b'{"traceEvents": [', b'{"ph":"X"},', b"1]}", True),
    Shape("kineto", "spaces", b"", b" ", packed=True), Shape("measurement-log", "lines", b"", b"{}\n"),
    Shape("rank-log", "lines", b"", b"{}\n"), Shape("metrics", "lines", b"", b"vllm:num_requests_running{} 1\n"),
    Shape("rows", "empty lines", b"id,accelerator_id,e2e_ms\n", b"\n", packed=True),
    Shape("rows", "rows", b"id,accelerator_id,e2e_ms\n", b"a,b,1\n"), Shape("rows", "one line", b"", b"a"),
    Shape("plans", "lists", b'{"a": [', b"[],", b"1]}"), Shape("additions", "tables", b"", b"[[accelerator]]\n"),
    Shape("quotes", "entries", b"", b"- {accelerator: H100, price: $2/h}\n"),
    Shape("quotes", "lists", b"[", b"[],", b"1]"),
    Shape("history", "no database", b"SQLite format 3\x00", b"\xff"),
    *(Shape("inventory", name, begins, piece, ends) for name, begins, piece, ends in (
        ("elements", b"<nvidia_smi_log>", b"<gpu/>", b"</nvidia_smi_log>"),
        ("nodes", b"", b"NodeName=a Gres=gpu:8\n", b""),
        ("lists", b'{"items": [', b"{},", b"{}]}"), ("rows", b"name, memory.total [MiB]\n", b"A, 1 MiB\n", b""),
    )),
    *(Shape("adopt", name, begins, piece) for name, begins, piece in (
        ("an open quote", b"vllm serve 'a", b"b\n"), ("lines", b"", b"vllm serve a\n"), ("continued", b"", b"a \\\n"),
        ("lists", b"- ", b"[],"), ("anchors", b"kind: &a [1]\nb: [", b"*a, "),
    )),
)  # fmt: skip


def _pieces(shape: Shape, size: int) -> Iterator[bytes]:
    block = shape.repeated * max(1, PIECE // len(shape.repeated))
    yield shape.begins
    for _ in range(max(1, size // len(block))):
        yield block
    yield shape.ends


def write(shape: Shape, size: int, path: Path) -> None:
    """A file of the shape, of about so many bytes before it is packed."""
    pack = zlib.compressobj(1, wbits=31)
    with path.open("wb") as file:
        for piece in _pieces(shape, size):
            file.write(pack.compress(piece) if shape.packed else piece)
        file.write(pack.flush() if shape.packed else b"")


def read_large(reader: str, path: Path) -> object:
    """Read a file by the reader of that name."""
    if reader in {"requests", "request-json"}:
        from tonnage.core.files import read_mapping

        return read_mapping(str(path))
    if reader == "quotes":
        from tonnage.core.quotes import quotes_of_file

        return quotes_of_file(str(path))
    if reader.startswith("cases"):
        from tonnage.questions.predict.case_lines import raw_cases

        with path.open("rb") as file:
            return sum(1 for _ in raw_cases(file, yaml=reader == "cases-yaml"))
    if reader in {"gguf", "safetensors", "config.json"}:
        from tonnage.catalog.hub.resolve import read_path

        return read_path(path)
    if reader == "trace":
        from tonnage.catalog.traces import read_trace

        return read_trace(path)
    if reader == "rows":
        from tonnage_accuracy.rows import read_rows

        return sum(1 for _ in read_rows(path))
    if reader == "plans":
        from tonnage.questions.ask import read_plan

        return read_plan(str(path))
    if reader == "inventory":
        from tonnage.measure.machine.detect import read_inventory

        return read_inventory(path)
    if reader == "adopt":
        from tonnage.adopt import read_running
        from tonnage.core.files import read_text

        return read_running(read_text(str(path)), name=path.name)
    if reader == "additions":
        from tonnage.catalog.additions import gather
        from tonnage.catalog.offers import offers

        return offers(additions=gather(paths=(str(path),)))
    return _measured(reader, path)


def _measured(reader: str, path: Path) -> object:
    if reader == "history":
        from tonnage.measure.history import Place, entries

        return entries(Place(path=path))
    from tonnage.measure.files import read_whole
    from tonnage.measure.importers import read_report
    from tonnage.measure.metrics import reading_of
    from tonnage.measure.records import read_log
    from tonnage.measure.train.kineto import measurement_of_trace
    from tonnage.measure.train.records import read_rank

    if reader == "metrics":
        return reading_of(read_whole(path, what="metrics"), at_s=0.0)
    readers: dict[str, Any] = {
        "reports": read_report,
        "kineto": measurement_of_trace,
        "measurement-log": read_log,
        "rank-log": read_rank,
    }
    return readers[reader](path)


_SUFFIX = {
    "requests": ".yaml",
    "cases-yaml": ".yaml",
    "gguf": ".gguf",
    "safetensors": ".safetensors",
    "config.json": ".json",
    "additions": ".toml",
}


def child(reader: str, path: str) -> None:
    """Read one file, and print what it took."""
    import resource
    import time

    from tools.fuzz.readers import allowed

    sentences = allowed()
    before = time.process_time()
    outcome = "read"
    try:
        read_large(reader, Path(path))
    except sentences as wrong:
        outcome = "refused" if "\n" not in str(wrong) else f"no sentence: {str(wrong)[:200]!r}"
    told = {"outcome": outcome, "s": time.process_time() - before}
    print(json.dumps({**told, "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0}))


def run(*, inputs: int, seed: int, readers: Collection[str] = ()) -> tuple[int, list[str]]:
    """Read so many files of some readers, or of all; how many were read, and the findings."""
    shapes = [shape for shape in SHAPES if not readers or shape.reader in readers]
    pick = random.Random(f"large/{seed}")
    findings: list[str] = []
    for number in range(inputs):
        shape = shapes[number % len(shapes)]
        size = (SMALLEST if pick.random() < 0.4 else pick.randint(SMALLEST, LARGEST)) * 10**6
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"file{_SUFFIX.get(shape.reader, '')}"
            write(shape, size, path)
            done = subprocess.run(
                [sys.executable, "-m", "tools.fuzz.large", shape.reader, str(path)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                timeout=900,
                env={**os.environ, "PYTHONHASHSEED": "0"},
            )
        what = f"{shape.reader}, {shape.name}{', packed' if shape.packed else ''}, {size / 1e6:.0f} MB"
        if done.returncode != 0:
            findings.append(f"{what}: {done.stderr[-600:]}")
            continue
        told = json.loads(done.stdout.splitlines()[-1])
        most_s = max(MOST_S, size / TRACE_BYTES_PER_S if shape.reader == "trace" else 0.0)
        print(f"{what:58}{told['outcome'][:9]:>9}{told['s']:7.2f} s{told['bytes'] / 1e6:7,.0f} MB", flush=True)
        if told["s"] > most_s or told["bytes"] > MOST_BYTES or told["outcome"] not in {"read", "refused"}:
            findings.append(f"{what}: {told['outcome']}, {told['s']:.1f} s, {told['bytes'] / 1e6:,.0f} MB")
    return inputs, findings


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2])
