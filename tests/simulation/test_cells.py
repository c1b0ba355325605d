"""llama.cpp's memory against its own log: 19 published shapes of 16 architectures, each with some of its layers."""

import csv
from pathlib import Path

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision
from tonnage.engines.registry import defaults, resolve_engine
from tonnage.physics.cache import window_cells
from tonnage.physics.graph_buffer import graph_buffer
from tonnage.simulation.kvcache import KvPool, kv_pool

MIB = 2**20
TABLE = Path(__file__).parents[2] / "measurements" / "own" / "llamacpp_memory.csv"
ROWS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))
PROCESSOR = catalog.accelerator("epyc-9654")


def started(
    model: Model, part: Accelerator = PROCESSOR, *, kv: str = "fp16", layout: Layout | None = None, **settings: object
) -> KvPool:
    precision = Precision(weights="gguf-f16", kv=kv, activations="fp16", experts=model.experts_dtype)
    engine = defaults(Engine(name="llamacpp", **settings), part, model=model)  # type: ignore[arg-type]
    return kv_pool(model, part, precision=precision, engine=resolve_engine(engine), layout=layout)


def shape(row: dict[str, str]) -> Model:
    whole = catalog.model(row["model"])
    counts = map(int, row["layers"].split())
    groups = tuple(replace(group, count=n) for group, n in zip(whole.layers, counts, strict=True))
    return replace(whole, layers=groups, towers=(), extra_parameters=0.0)


def test_the_table_has_architectures_enough() -> None:
    assert len({row["model"] for row in ROWS}) >= 19 and len(ROWS) == 5 * len({row["model"] for row in ROWS})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row.values()))
def test_memory_is_what_the_log_says(row: dict[str, str]) -> None:
    said = {name: float(row[f"{name}_mib"]) * MIB for name in ("model", "kv", "rs", "compute", "output")}
    length, slots, piece = (int(row[name]) for name in ("n_ctx", "n_parallel", "n_ubatch"))
    if row["flash_attention"] == "0":  # no release does so unasked whose log would be the same
        cells = window_cells(shape(row), context=length / slots, piece=piece)
        buffer = graph_buffer(shape(row), tokens=piece, cells=cells, outputs=slots, fused=False)
        assert buffer.value == pytest.approx(said["compute"], rel=0.06)
        return
    found = started(
        shape(row),
        kv=row["kv"],
        version=row["release"],
        max_model_len=length,
        max_num_seqs=slots,
        max_num_batched_tokens=piece,
        kv_unified=row["kv_unified"] == "1",
    ).memory
    assert found.value == pytest.approx(sum(said.values()), rel=0.01)
    assert found.part("KV cache") == pytest.approx(said["kv"] + said["rs"], rel=0.002, abs=0.1 * MIB)
    # A quantised cache has its queries rotated, in another buffer as wide.
    assert found.part("compute buffer") == pytest.approx(said["compute"], rel=0.03 if row["kv"] == "fp16" else 0.06)


def test_published_logs_of_other_devices() -> None:
    """Gemma 4 31B at 131,072 tokens in Q8_0, one slot, under Vulkan (May 2026): context 6,077 and compute 522 MiB."""
    gemma, part = catalog.model("google/gemma-4-31B-it"), catalog.accelerator("r9700")
    found = started(gemma, part, kv="gguf-q8_0", version="b9090", max_model_len=131072, max_num_seqs=1)
    assert found.memory.part("KV cache") / MIB == pytest.approx(6077, rel=0.001)
    assert found.memory.part("compute buffer") / MIB == pytest.approx(522, rel=0.05)


def test_a_context_belongs_to_the_driver_of_the_part() -> None:
    llama = catalog.model("meta-llama/Meta-Llama-3.1-8B")
    taken = {
        name: started(llama, catalog.accelerator(name)).memory.part("context and libraries") / MIB
        for name in ("rtx-4090", "mi50", "m4-max", "epyc-9654")
    }
    assert taken["rtx-4090"] == pytest.approx(452, rel=0.01)
    assert taken["mi50"] == pytest.approx(254, rel=0.01)
    assert taken["m4-max"] == taken["epyc-9654"] == 0


def test_gemma_4_31b_fits_two_rtx_3090_at_its_whole_context() -> None:
    gemma = catalog.model("google/gemma-4-31B-it")
    part = catalog.accelerator("rtx-3090")
    engine = defaults(Engine(name="llamacpp", max_model_len=131072), part, model=gemma)
    precision = Precision(weights="gguf-q4_k_m", kv="fp16", activations="fp16")
    found = kv_pool(gemma, part, precision=precision, engine=resolve_engine(engine), layout=Layout(pp=2))
    assert found.verdict.ok and found.need.value <= found.limit_bytes
