"""Which functions read what others wrote, and what a good input of each looks like.

A reader takes bytes, as they lie in a file or come over a wire, and returns or raises. What it may raise is a
`TonnageError` or, from a stream, `Broken`: everything else is a finding. A new reader is one row here.
"""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DATA = ROOT / "tests" / "data"

Seeds = Callable[[], Iterator[bytes]]
Read = Callable[[bytes], object]


class Reader(NamedTuple):
    """What is fed, and from which good inputs the bad ones are made."""

    make: Callable[[Path], Read]
    """The reader, given a folder of its own for the files that it reads."""
    seeds: Seeds
    tokens: tuple[str, ...] = ()
    """Words of the format that a mutation may put in."""


def plain(read: Read) -> Callable[[Path], Read]:
    """A reader of bytes."""
    return lambda _: read


def of_file(read: Callable[[Path], object], name: str) -> Callable[[Path], Read]:
    """A reader of a file, which is written anew for each input."""

    def make(folder: Path) -> Read:
        path = folder / name

        def fed(data: bytes) -> object:
            path.write_bytes(data)
            return read(path)

        return fed

    return make


def texts(*some: str) -> Seeds:
    return lambda: (text.encode() for text in some)


def files(*paths: Path, most: int = 200_000) -> Seeds:
    """The files that are there and small enough to be mutated often."""
    return lambda: (path.read_bytes() for path in paths if path.is_file() and path.stat().st_size <= most)


def _unit(dimension: str) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        from tonnage.units import read as value

        return value(data.decode("utf-8", "replace"), dimension)

    return read


def _units(data: bytes) -> list[object]:
    from tonnage.errors import TonnageError

    found: list[object] = []
    for dimension in ("s", "bytes", "tokens", "1/s", "USD/h", "fraction", "FLOP/s", "W"):
        try:
            found.append(_unit(dimension)(data))
        except TonnageError as wrong:
            found.append(wrong)
    return found


def _quotes(path: Path) -> object:
    from tonnage.core.quotes import quotes_of_file
    from tonnage.questions.serve.question import serve_request

    return serve_request({"model": "8B", "rate": "2/s", "quotes": quotes_of_file(str(path))})


def _request(path: Path) -> object:
    from tonnage.core.files import read_mapping
    from tonnage.questions.ask import kind_of, reader_of
    from tonnage.questions.registry import KINDS

    fields = read_mapping(str(path))
    if "cost" in fields:
        from tonnage.questions.cost.inputs import rent_or_buy_request

        return rent_or_buy_request({name: value for name, value in fields.items() if name != "cost"})
    if "sweep" in fields:
        from tonnage.sweep.sweep import sweep_of

        return sweep_of(fields)
    if "plan" not in fields:
        from tonnage.questions.simulate.simulate import simulation_of

        return simulation_of(fields)
    kind, asked = kind_of(fields)
    if kind not in KINDS:
        return kind
    return reader_of(kind)(asked)


def _config(data: bytes) -> object:
    from tonnage.catalog.hub.config import read_config
    from tonnage.catalog.hub.fields import parse_object
    from tonnage.physics.parameters import parameters

    return parameters(read_config(parse_object(data, file="config.json")))


def _configs() -> Iterator[bytes]:
    kept = json.loads((DATA / "hub" / "configs.json").read_text(encoding="utf-8"))
    for entry in kept.values():
        yield json.dumps(entry["config"]).encode()


def _gguf(path: Path) -> object:
    from tonnage.catalog.hub.gguf import read_gguf

    return read_gguf(path)


def _ggufs() -> Iterator[bytes]:
    from tests.catalog.hub.files import LLAMA_GGUF, gguf_bytes, llama_gguf_tensors

    yield gguf_bytes(LLAMA_GGUF, llama_gguf_tensors())


def _safetensors(path: Path) -> object:
    from tonnage.catalog.hub.weights import read_safetensors

    return read_safetensors(path)


def _safetensors_seeds() -> Iterator[bytes]:
    head = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a.weight": {"dtype": "BF16", "shape": [8, 16], "data_offsets": [0, 256]},
            "b.bias": {"dtype": "F32", "shape": [4], "data_offsets": [256, 272]},
        }
    ).encode()
    yield len(head).to_bytes(8, "little") + head + bytes(272)


def _trace(path: Path) -> object:
    from tonnage.catalog.traces import read_trace

    return read_trace(path, limit=1_000)


def _trace_csv() -> Iterator[bytes]:
    yield b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50,396,109\n"
    yield b"arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,100,20\n1.5,300,5\n"


def _trace_lines() -> Iterator[bytes]:
    yield b'{"timestamp": 0, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}\n' * 3
    yield b'{"timestamp": 1.5, "prompt_tokens": 12, "completion_tokens": 7}\n{"timestamp": 2, "prompt_tokens": 1}\n'


def _page(data: bytes) -> object:
    from tonnage.measure.metrics import reading_of

    return reading_of(data, at_s=0.0)


def _stream(data: bytes) -> object:
    from tonnage.measure.stream import Body, events_of, head_of, take_body

    buffer = bytearray(data)
    head = head_of(buffer)
    if head is None:
        return None
    body = Body(head=head, left=head.length or 0)
    text = bytearray()
    for _ in range(64):
        before = len(buffer)
        text += take_body(buffer, body)
        if body.ended or len(buffer) == before:
            break
    return events_of(text)


def _streams() -> Iterator[bytes]:
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": null}]}\n\n'
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}\n\ndata: [DONE]\n\n'
    body = event * 3 + usage
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    yield head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    yield head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def _plan(path: Path) -> object:
    from tonnage.questions.ask import read_plan

    return read_plan(str(path))


def _plans() -> Iterator[bytes]:
    import tonnage

    yield msgspec.json.encode(tonnage.plan_serve("8B", rate="1/s", traffic="chat", accelerator=["L4"], quick=True))
    tuned = tonnage.plan_finetune("8B", method="lora", examples="1000", tokens_per_example=200, accelerator=["L40S"])
    yield msgspec.json.encode(tuned)


def _report(path: Path) -> object:
    from tonnage.measure.importers import read_report

    return read_report(path)


def _log(path: Path) -> object:
    from tonnage.measure.records import read_log

    return read_log(path)


def _logs() -> Iterator[bytes]:
    """A short file of results, as the client writes it beside a server that behaves as told."""
    from tests.measure.stub import Stub, serving

    from tonnage.domain.measurement import Load
    from tonnage.measure.records import Spec
    from tonnage.measure.serve import measure_serve

    load = Load(concurrency=2, requests=6, warmup=1, duration_s=5.0)
    with tempfile.TemporaryDirectory() as folder, serving(Stub(ttft_s=0.001, itl_s=0.0)) as url:
        measure_serve(
            Spec(url=url, kind="chat", model="m", load=load, prompt_tokens=8, output_tokens=4, timeout_s=5.0),
            Path(folder) / "run.jsonl",
        )
        yield (Path(folder) / "run.jsonl").read_bytes()


def _additions(path: Path) -> object:
    from tonnage.catalog.accelerators import accelerators
    from tonnage.catalog.additions import gather

    return accelerators(gather(paths=(str(path),)))


def _added() -> Iterator[bytes]:
    from tonnage.catalog.additions import TEMPLATE

    yield TEMPLATE.encode()


def _case(data: bytes) -> object:
    from tonnage.errors import BadRequest
    from tonnage.questions.predict.case_lines import case_of_object

    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise BadRequest(str(wrong)) from None
    return case_of_object(raw)


def _profile(data: bytes) -> object:
    from tonnage.catalog.hub.fields import parse_object
    from tonnage.catalog.hub.resolve import read_profile

    return read_profile(parse_object(data, file="profile.json"), where="profile.json")


def _profiles() -> Iterator[bytes]:
    from tonnage.domain.profile import PROFILE_SCHEMA, Moment, Profile, TracedInput, TracedOperator

    linear = TracedOperator(kind="gemm", name="linear", flop=2e6, weight_values=1e6, m=1, n=1_000, k=1_000)
    yield msgspec.json.encode(
        Profile(
            schema=PROFILE_SCHEMA,
            name="net",
            inputs=(TracedInput(shape=(2, 1_000), dtype="float32"),),
            samples=2,
            parameters=1e6,
            trainable_parameters=1e6,
            largest_parameter=1e6,
            forward=(linear,),
            backward=(linear,),
            peak_values=2e3,
            moments=(Moment(activation_values=5e3, gradient_values=1e6),),
        )
    )


def _rows(path: Path) -> object:
    from tonnage_accuracy.rows import read_rows

    return list(read_rows(path))


def _some_rows() -> Iterator[bytes]:
    with gzip.open(ROOT / "measurements" / "inference.csv.gz") as file:
        yield b"".join(file.readline() for _ in range(6))


def _name(data: bytes) -> object:
    from tonnage.catalog.accelerators import accelerator

    return accelerator(data.decode("utf-8", "replace"))


def _machine(path: Path) -> object:
    from tonnage.core.machine import machine_found
    from tonnage.measure.machine.detect import read_inventory

    return machine_found(read_inventory(path))


def _owned(data: bytes) -> object:
    from tonnage.core.machine import read_owned

    return read_owned(data.decode("utf-8", "replace"))


def _running(name: str) -> Callable[[bytes], object]:
    """What a running deployment's file starts; its name settles what kind of file it is."""

    def read(data: bytes) -> object:
        from tonnage.adopt import read_running

        return read_running(data.decode("utf-8", "replace"), name=name)

    return read


def _adopted(*suffixes: str) -> Seeds:
    found = sorted((ROOT / "tests" / "adopt" / "files").iterdir())
    return files(*(path for path in found if path.suffix in suffixes))


def _pasted(data: bytes) -> object:
    from tonnage.measure.points import read_pasted

    return read_pasted(data.decode("utf-8", "replace"), prompt_tokens=1024, output_tokens=256)


def _sessions(path: Path) -> object:
    from tonnage.questions.sessions.logs import trace_sessions

    return trace_sessions(str(path))


def _session_lines() -> Iterator[bytes]:
    """Two sessions in turn, each turn with the blocks of the one before and one more."""
    pick = random.Random(4)
    held: dict[int, list[int]] = {0: [1], 1: [1]}
    lines = []
    for turn in range(8):
        blocks = held[turn % 2]
        blocks.append(100 + turn)
        row = {"timestamp": turn * 3_000 + pick.randrange(900), "input_length": 512 * len(blocks), "output_length": 9}
        lines.append(json.dumps({**row, "hash_ids": blocks}))
    yield "\n".join(lines).encode()


def _posted(data: bytes) -> object:
    from tonnage.web.guard import json_object

    return json_object(data)


READERS: dict[str, Reader] = {
    "units": Reader(plain(_units), texts("8 GiB", "300 ms", "4/s", "12k", "$1.20/h", "25 %", "1e3 TFLOP/s", "1 day"),
                    ("GiB", "µs", "1e308", "-", "²", "∞", "nan", "١", "k", "%", "/", "\u202e")),
    "names": Reader(plain(_name), texts("H100", "rtx-4090", "A100 80GB", "h100-sxm5-80gb"), ("NVIDIA ", "-", "GB")),
    "machines": Reader(of_file(_machine, "machine.txt"), files(*sorted((DATA / "machine").glob("*.[xjct]*"))),
                       ("<gpu>", "<!ENTITY", "MiB", "gpu:", "null", "-1", "1e999", "[]", "NodeName=", "\x00")),
    "machine-names": Reader(plain(_owned), texts("8 x A100 80GB, 4 x L40S", "M4 Max 64GB", "CPU", "3090 Ti"),
                            (" x ", ",", "GB", "0", "-", "9" * 40, "MacBook Pro ", "(R)")),
    "requests": Reader(of_file(_request, "request.yaml"), files(*sorted(EXAMPLES.glob("*.yaml"))),
                       ("plan: serve", "plan: rl", "plan: adopt", "rate:", "&a", "*a", "!!python/object", "[", "{",
                        "<<:", ".inf", "1e999", "- ")),
    "request-json": Reader(of_file(_request, "request.json"),
                           texts('{"plan": "serve", "model": "8B", "rate": "2/s", "traffic": "chat"}',
                                 '{"plan": "train", "model": "8B", "tokens": "1B"}'),
                           ('"rate"', "null", "[[[[", "1e999", "-0", "\\ud800", '"__proto__"')),
    "quotes": Reader(of_file(_quotes, "quotes.yaml"),
                     texts("quotes:\n- {accelerator: H100, price: $2/h, term: 12 months, minimum: 16, upfront: 30 %}\n",
                           '[{"accelerator": "H200", "price": "$2/h", "term": "14 days", "ramp": "1=8, 4=16"}]'),
                     ("null", "-1", "1e999", "[", "- ", "ramp:", "=", ".inf", "2027-02-30", "0=0", "9" * 30)),
    "cases": Reader(plain(_case), texts('{"kind": "serve", "model": "8B", "accelerator": "H100", "isl": 9, "osl": 9, '
                                        '"traffic": {"concurrency": 2}}'), ("null", "1e999", "[]", "true")),
    "config.json": Reader(plain(_config), _configs, ("null", "-1", "1e30", "0", "[]", "{}", '"auto"', "true")),
    "gguf": Reader(of_file(_gguf, "model.gguf"), _ggufs, ("GGUF", "llama.block_count", "\x00" * 8, "\xff" * 8)),
    "safetensors": Reader(of_file(_safetensors, "model.safetensors"), _safetensors_seeds,
                          ('"shape"', "BF16", "-1", "1e30", "data_offsets")),
    "profiles": Reader(plain(_profile), _profiles,
                       ("null", "-1", "1e999", "[]")),
    "trace.csv": Reader(of_file(_trace, "trace.csv"), _trace_csv, (",", "\n", "-1", "nan", "1e999", '"', "2023-")),
    "trace.jsonl": Reader(of_file(_trace, "trace.jsonl"), _trace_lines, ("null", "-1", "1e999", "[", "\n", "{}")),
    "metrics": Reader(plain(_page), files(*sorted((DATA / "measure").glob("*.prom"))),
                      ("# TYPE", "{", 'le="+Inf"', "NaN", "1e999", "_bucket", "vllm:", "\n")),
    "stream": Reader(plain(_stream), _streams,
                     ("\r\n", "data: ", "[DONE]", "Transfer-Encoding: chunked", "ffffffff\r\n", "null", '"usage"')),
    "plans": Reader(of_file(_plan, "plan.json"), _plans, ("null", "-1", "1e999", "[]", '"kind":"train"')),
    "reports": Reader(of_file(_report, "report.json"), files(*sorted((DATA / "measure").glob("*.json*"))),
                      ("null", "-1", "1e999", "[]", "{}")),
    "measurement-log": Reader(of_file(_log, "run.jsonl"), _logs, ("null", "-1", "\n", "{}")),
    "additions": Reader(of_file(_additions, "own.toml"), _added,
                        ("[[accelerator]]", "[[offer]]", "=", '""', "1e999", "-", "inf", "2026-13-01")),
    "measurement-rows": Reader(of_file(_rows, "rows.csv"), _some_rows, (",", "\n", "-1", "nan", '"', "1e999")),
    "adopt-scripts": Reader(plain(_running("run.sh")), _adopted(".sh", ".sbatch"),
                            ("'", '"', "$(", "${", "<<EOF\n", "\\\n", "\n", "--tensor-parallel-size", "0", "A=$A$A\n",
                             "#SBATCH ",
                             "bash -c", "$((", "))", "(", "export A=")),
    "adopt-documents": Reader(plain(_running("deployment.yaml")), _adopted(".yaml", ".yml"),
                              ("&a ", "*a", "[", "{", "- ", "\n---\n", "args:", "command:", "null", "-1", ".inf",
                               "!!x ",
                               "items:", "spec:", "1e999", "<<: ")),
    "adopt-toml": Reader(plain(_running("job.toml")), _adopted(".toml"), ("[", "]", "=", '"""', "1e999", "inf",
                        "{", "\n")),
    "pasted": Reader(plain(_pasted), texts("TPOT 21 ms at 32 clients", "TTFT 0.4 s, 1.2k tok/s with 64 users, 2048/256 "
                                           "tokens", "ITL 12 ms, 3 requests/s, 1,024/256"),
                     (",", ".", "-", "e", "0", "k", "9" * 30, " ms", " us", "/", "\u0663", "at")),
    "sessions": Reader(of_file(_sessions, "sessions.jsonl"), _session_lines,
                       ("hash_ids", "[", "]", "-1", "1e999", "null", "9" * 20, "\n", "{}")),
    "posted": Reader(plain(_posted), texts('{"model": "8B", "rate": "2/s"}'),
                     ("[" * 50, "null", '{"a":' * 20, "1e999")),
}  # fmt: skip


def reader(name: str) -> tuple[Read, list[bytes], tuple[bytes, ...]]:
    """The function of a row, its good inputs, and its words."""
    row = READERS[name]
    folder = Path(tempfile.mkdtemp(prefix="tonnage-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    tokens = tuple(token.encode("utf-8", "replace") for token in row.tokens)
    return row.make(folder), [seed for seed in row.seeds() if seed], tokens


def allowed() -> tuple[type[Exception], ...]:
    """What a reader may raise: one sentence."""
    from tonnage.errors import TonnageError
    from tonnage.measure.stream import Broken

    return (TonnageError, Broken)
