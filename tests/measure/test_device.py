"""`measure device`: what was measured becomes an accelerator, and its predictions hold on the processor at hand."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tonnage import catalog, cli
from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import model_of
from tonnage.domain.case import InferCase
from tonnage.domain.measurement import DEVICE_SCHEMA, DeviceMeasurement, Rate
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model
from tonnage.errors import BadRequest
from tonnage.measure import device as measuring
from tonnage.measure.device import device_toml, measure_device
from tonnage.questions.predict.inference import predict_infer


def rate(name: str, value: float, shape: str = "", dtype: str = "", unit: str = "FLOP/s") -> Rate:
    return Rate(name=name, value=value, unit=unit, shape=shape, dtype=dtype)


FOUND = DeviceMeasurement(
    schema=DEVICE_SCHEMA,
    id="own-test",
    name='A "processor"',
    kind="cpu",
    memory_bytes=16 * 2**30,
    threads=1,
    library="torch 2",
    date="2026-11-21",
    rates=(
        rate("product", 1.8e11, "512^3", "fp32"),
        rate("product", 2.0e11, "1024^3", "fp32"),
        rate("product", 1.2e12, "1024^3", "bf16"),
        rate("product", 1.5e11, "1024^3", "fp16"),
        rate("convolution", 1.4e11, "a", "fp32"),
        rate("convolution", 1.6e11, "b", "fp32"),
        rate("convolution", 1.8e11, "c", "fp32"),
        rate("copy", 6e10, "1 MB", unit="bytes/s"),
        rate("copy", 2.4e10, "16 MB", unit="bytes/s"),
        rate("copy", 1.3e10, "256 MB", unit="bytes/s"),
        rate("pass", 7e10, "0.5 MB, x + x", unit="bytes/s"),
        rate("pass", 5e9, "128 MB, x + x", unit="bytes/s"),
        rate("start", 8e-7, "100 tiny additions", unit="s"),
    ),
)


def added(folder: Path, found: DeviceMeasurement) -> Additions:
    path = folder / "own.toml"
    path.write_text(device_toml(found), encoding="utf-8")
    return Additions(paths=(str(path),))


def test_a_measurement_is_an_accelerator(tmp_path: Path) -> None:
    own = catalog.accelerator("own-test", added(tmp_path, FOUND))
    assert (own.segment, own.memory_bytes_per_s) == ("cpu", 1.3e10)
    assert own.peaks == {"bf16": 1.2e12, "fp32": 2.0e11}, "fp16 is slower than fp32: emulated, so not listed"
    assert own.measured.product == 1.0
    assert own.measured.convolution == pytest.approx(0.8)
    assert own.measured.start_s == pytest.approx(8e-7)
    assert own.measured.passes == ((1e6, 7e10), (256e6, 5e9))
    assert own.measured.cache_bytes == 32e6


def test_what_was_measured_may_be_changed_by_hand(tmp_path: Path) -> None:
    changed = Additions(paths=added(tmp_path, FOUND).paths, overrides=("own-test.measured.convolution=50 %",))
    assert catalog.accelerator("own-test", changed).measured.convolution == 0.5
    wrong = Additions(paths=changed.paths, overrides=("own-test.measured.passes=1 MB",))
    with pytest.raises(BadRequest, match="no size with its rate"):
        catalog.accelerator("own-test", wrong)


def test_more_of_anything_never_slows_a_prediction(tmp_path: Path) -> None:
    case = InferCase(model="timm/resnet50.a1_in1k", accelerator="own-test", batch=4, precision="fp32")
    paths = added(tmp_path, FOUND).paths

    def seconds(*overrides: str) -> float:
        found = predict_infer(case, additions=Additions(paths=paths, overrides=overrides)).latency_s
        return found.value

    base = seconds()
    assert seconds("own-test.peak.fp32=0.4 TFLOP/s") < base
    assert seconds("own-test.memory_bw=26 GB/s") <= base
    assert seconds("own-test.measured.convolution=95 %") < base


def test_without_pytorch_numpy_measures_the_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measuring, "pytorch", lambda: None)
    found = measure_device("cpu", seconds=0.2)
    assert catalog.accelerator(found.id, added(tmp_path, found)).peaks["fp32"] > 1e9
    with pytest.raises(BadRequest, match="needs PyTorch"):
        measure_device("cuda")


def test_a_run_that_outlasts_its_share_of_the_time_is_not_repeated() -> None:
    made: list[int] = []

    def clock(run: Callable[[], Any], count: int) -> float:
        for _ in range(count):
            run()
        return 2.0 * count

    assert measuring._best(lambda: made.append(1), clock, seconds=0.1) == (2.0, 1)
    assert len(made) == 2, "once to warm up, once to time"
    assert measuring._best(lambda: made.append(1), clock, seconds=16.0) == (2.0, 8)


def test_the_command_writes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(measuring._SIDES, True, (64, 128, 256))
    file = tmp_path / "box.toml"
    args = ["measure", "device", "--threads", "1", "--seconds", "200 ms", "--id", "own-box", "--out", str(file)]
    result = CliRunner().invoke(cli.root, args, prog_name="tonnage")
    assert result.exit_code == 0, result.output
    assert "own-box" in result.output
    assert catalog.accelerator("own-box", Additions(paths=(str(file),))).measured.passes
    with pytest.raises(BadRequest, match="there is cpu"):
        measure_device("xla")


@pytest.fixture(scope="module")
def at_hand(tmp_path_factory: pytest.TempPathFactory) -> Additions:
    """This processor, measured on one thread."""
    torch = pytest.importorskip("torch", reason="the run needs the torch extra")
    torch.set_num_threads(1)
    return added(tmp_path_factory.mktemp("own"), measure_device("cpu", threads=1, seconds=12.0))


def measured_s(net: Any, inputs: list[Any]) -> float:
    """The best of ten real runs, in seconds of this thread."""
    import torch

    net.eval()
    best = float("inf")
    with torch.no_grad():
        for _ in range(10):
            begun = time.process_time()
            net(*inputs)
            best = min(best, time.process_time() - begun)
    return best


def predicted_s(model: Model, additions: Additions, *, batch: int, seq_len: int | None = None) -> float:
    (own,) = [name for name in catalog.accelerators(additions) if name.startswith("own-")]
    case = InferCase(model=model, accelerator=own, batch=batch, seq_len=seq_len, precision="fp32")
    found = predict_infer(case, additions=additions).latency_s
    return found.value


def _random(given: Any) -> list[Any]:
    import torch

    inputs = given if isinstance(given, list) else [given]
    return [torch.randn_like(t) if t.is_floating_point() else t for t in inputs]


@pytest.mark.wall
@pytest.mark.measured
@pytest.mark.slow
@pytest.mark.parametrize("name", ["convolutional", "transformer"])
def test_a_real_run_on_this_processor_within_a_quarter(name: str, at_hand: Additions) -> None:
    """Images per second of a small CNN and tokens per second of a small transformer, traced and then really run."""
    from tests import networks
    from tonnage.measure.trace import trace_module

    make: Callable[[int], Any] = {
        "convolutional": lambda batch: networks.resnet((1, 2, 2, 1), 64, 160, batch=batch),
        "transformer": lambda batch: networks.bert(384, 6, 6, batch=batch),
    }[name]
    model = model_of(trace_module(lambda: make(1), name=name, training=False))
    net, given = make(4)
    real = measured_s(net, _random(given))
    assert predicted_s(model, at_hand, batch=4) == pytest.approx(real, rel=0.25)


@pytest.mark.wall
@pytest.mark.measured
@pytest.mark.slow
def test_tokens_per_second_without_a_trace(at_hand: Additions) -> None:
    """The same transformer as a list of layers: no trace, no torch in the prediction."""
    from tests import networks

    look = Attention(
        num_attention_heads=6, num_key_value_heads=6, head_dim=64, bias=True, output_bias=True, causal=False
    )
    layer = LayerGroup(count=6, mixer=look, feed_forward=Mlp(intermediate_size=1536, gated=False, bias=True))
    model = Model(
        id="small-bert",
        family="BERT",
        kind="encoder",
        hidden_size=384,
        vocab_size=30522,
        layers=(layer,),
        has_head=False,
        norm_bias=True,
        learned_positions=512,
        max_context=512,
    )
    net, given = networks.bert(384, 6, 6, batch=4)
    real = 4 * 128 / measured_s(net, _random(given))
    assert 4 * 128 / predicted_s(model, at_hand, batch=4, seq_len=128) == pytest.approx(real, rel=0.25)
