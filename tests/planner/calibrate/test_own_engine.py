"""Calibrate on one model, predict another of ten times its size on the same processor: as measured, and live."""

import csv
import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from tonnage.catalog import Additions
from tonnage.catalog.hub.inline import read_inline
from tonnage.measure.knee import knee_of
from tonnage.nouns.calibration import Stretch
from tonnage.nouns.measurement import MEASUREMENT_SCHEMA, Latency, Measurement, Point
from tonnage.nouns.model import Model
from tonnage.nouns.workload import Slo
from tonnage.planner.calibrate.calibrate import calibrate
from tonnage.planner.calibrate.loads import Stack, loads_of

OWN = Path(__file__).parents[3] / "measurements" / "own"
DEVICE = Additions(paths=(str(OWN / "xeon-1-thread.toml"),))
OPTIONS = {"max_num_seqs": 16, "max_model_len": 1024, "max_num_batched_tokens": 2048}
LEVELS = (1, 2, 4, 8)

Row = dict[str, str]


def rows(name: str) -> list[Row]:
    """Of each load the repeat in which the server had the largest share of its core."""
    with (OWN / "engine.csv").open(newline="") as file:
        own = [row for row in csv.DictReader(file) if row["model"] == name and int(row["concurrency"]) in LEVELS]
    best: dict[int, Row] = {}
    for row in own:
        known = best.get(int(row["concurrency"]))
        if known is None or float(row["server_cpu_share"]) > float(known["server_cpu_share"]):
            best[int(row["concurrency"])] = row
    return [best[level] for level in sorted(best)]


def model_of(row: Row) -> Model:
    hidden = int(row["hidden_size"])
    return read_inline({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "torch_dtype": "float16",
        "intermediate_size": int(row["intermediate_size"]), "num_hidden_layers": int(row["num_hidden_layers"]),
        "num_attention_heads": hidden // 64, "num_key_value_heads": hidden // 256, "head_dim": 64,
        "vocab_size": int(row["vocab_size"]), "max_position_embeddings": 4096, "tie_word_embeddings": False,
    })  # fmt: skip


def rate(point_s: dict[str, float], *, clients: float, tokens: float) -> float:
    """Tokens per second of clients who wait for their answers (Little)."""
    return clients * tokens / (point_s["ttft_s"] + (tokens - 1.0) * point_s["tpot_s"])


def measured(found: Iterable[Row]) -> Measurement:
    """The rows in seconds of the server's own processor time."""
    points = []
    for row in found:
        share, tokens, clients = float(row["server_cpu_share"]), float(row["output_tokens"]), float(row["concurrency"])
        times = {name: float(row[name]) * share for name in ("ttft_s", "tpot_s")}
        points.append(
            Point(
                concurrency=clients,
                requests=int(row["requests"]),
                completed=int(row["requests"]),
                prompt_tokens=float(row["prompt_tokens"]),
                output_tokens=tokens,
                output_least=tokens,
                output_most=tokens,
                output_tokens_per_s=rate(times, clients=clients, tokens=tokens),
                requests_per_s=rate(times, clients=clients, tokens=tokens) / tokens,
                **{name: Latency(mean=value) for name, value in times.items()},
            )
        )
    return Measurement(schema=MEASUREMENT_SCHEMA, tool="tonnage", points=tuple(points))


def stack(row: Row) -> Stack:
    return Stack(model=model_of(row), accelerator="own-xeon-1t", engine="llamacpp", options=OPTIONS)


def carried(small: str, large: str) -> tuple[Stretch, list[tuple[dict[str, float], dict[str, float], float]]]:
    """The stretch of the small model, and of each load of the large one: predicted, measured, clients."""
    own = rows(small)
    fitted = calibrate([(measured(own), stack(own[0]))], additions=DEVICE).calibration.stretch
    truth = rows(large)
    loads = loads_of(measured(truth), stack(truth[0]), additions=DEVICE)
    return fitted, [
        (load.predicted(fitted), load.measured, float(row["concurrency"]))
        for load, row in zip(loads, truth, strict=True)
    ]


def test_ten_times_the_size_on_a_quiet_machine_is_within_a_fifth() -> None:
    _, loads = carried("quiet-94MB", "quiet-910MB")
    predicted, truth, _ = loads[0]
    assert predicted["tpot_s"] == pytest.approx(truth["tpot_s"], rel=0.20)
    assert predicted["ttft_s"] == pytest.approx(truth["ttft_s"], rel=0.20)


def test_the_knee_of_a_sweep_is_within_a_quarter_on_a_shared_machine() -> None:
    _, loads = carried("shared-75MB", "shared-904MB")
    knees = []
    for which in (0, 1):
        points = [
            Point(concurrency=clients, completed=8,
                  requests_per_s=rate(load[which], clients=clients, tokens=32.0) / 32.0)
            for load in loads
            for clients in (load[2],)
        ]  # fmt: skip
        knee = knee_of(points, by="concurrency", slo=Slo())
        assert knee is not None
        knees.append(knee.requests_per_s)
    assert knees[0] == pytest.approx(knees[1], rel=0.25)


@pytest.mark.measured
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not hasattr(__import__("os"), "sched_setaffinity"), reason="processes cannot be pinned here")
def test_live(tmp_path: Path) -> None:
    """Times of the server's own processor, best of three repeats, one core for it and another for the client."""
    pytest.importorskip("gguf", reason="the test makes GGUF models: pip install gguf")
    pytest.importorskip("xllamacpp", reason="the test serves them: pip install xllamacpp")
    from tests.measure.engine_models import best_of, write_llama

    sizes = {"small": (768, 2048, 6), "large": (2048, 5632, 10)}
    found = {}
    for name, (hidden, feed_forward, layers) in sizes.items():
        path = tmp_path / f"{name}.gguf"
        write_llama(path, hidden=hidden, feed_forward=feed_forward, layers=layers)
        row = {"hidden_size": str(hidden), "intermediate_size": str(feed_forward), "num_hidden_layers": str(layers),
               "vocab_size": "259", "output_tokens": "24", "requests": "2", "concurrency": "1"}  # fmt: skip
        found[name] = {**row, **best_of(path, repeats=3, folder=tmp_path)}
        path.unlink()
    small, large = found["small"], found["large"]
    fitted = calibrate([(measured([small]), stack(small))], additions=DEVICE).calibration.stretch
    load = loads_of(measured([large]), stack(large), additions=DEVICE)[0]
    predicted = load.predicted(fitted)
    for name in ("tpot_s", "ttft_s"):
        # Other work on the machine takes memory bandwidth and cache from the server, which no clock of its own shows.
        assert abs(math.log(predicted[name] / load.measured[name])) < math.log(1.5)
