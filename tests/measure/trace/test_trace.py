"""Tracing: exact counts of published networks, memory against PyTorch's own tracker, and what cannot be followed."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="tracing needs the torch extra")

from tests import networks  # noqa: E402
from tests.sweeps import FULL  # noqa: E402

from tonnage import catalog  # noqa: E402
from tonnage.catalog.fitted import offline, unet_of  # noqa: E402
from tonnage.catalog.hub.resolve import model_of  # noqa: E402
from tonnage.domain.layout import Layout  # noqa: E402
from tonnage.domain.precision import Precision  # noqa: E402
from tonnage.domain.profile import Profile  # noqa: E402
from tonnage.errors import BadRequest, UnknownName  # noqa: E402
from tonnage.measure.trace import load, parse_input, trace_module  # noqa: E402
from tonnage.physics.diffusion import unet_work  # noqa: E402
from tonnage.physics.network import profile_work  # noqa: E402
from tonnage.physics.parameters import layer_parameters, parameters  # noqa: E402
from tonnage.physics.shares import Tokens  # noqa: E402
from tonnage.physics.transformer import encode_work, step_work  # noqa: E402
from tonnage.physics.vision import decoder_step_work, speech_encoder_work  # noqa: E402

SIXTEEN = Precision(weights="fp16", kv="fp16", activations="fp16")


def traced(make: Callable[[], Any], **options: Any) -> Profile:
    return trace_module(make, name="net", training=options.pop("training", False), **options)


def flop(work: Any) -> float:
    return sum(op.flop * op.count for op in work)


def test_resnet_50_is_counted_to_the_last_parameter() -> None:
    found = traced(networks.resnet)
    known = catalog.model("timm/resnet50.a1_in1k")
    assert found.parameters == 25_557_032
    assert found.flop == pytest.approx(known.network.flop, rel=0.01)
    assert found.output_values == pytest.approx(known.network.activation_values or 0, rel=0.01)


def test_vit_b_16_as_its_layers_say() -> None:
    found, known = traced(networks.vit), catalog.model("google/vit-base-patch16-224")
    assert found.parameters == 86_567_656 == parameters(known).value
    built_in = flop(encode_work(known, sequences=1, length=197, precision=SIXTEEN, layout=Layout()))
    patches = 2 * 196 * 3 * 16**2 * 768  # the patch embedding and the head stand outside the layers
    assert found.flop == pytest.approx(built_in + patches, rel=0.01)


def test_bert_base_as_its_layers_say() -> None:
    found, known = traced(networks.bert), catalog.model("google-bert/bert-base-uncased")
    assert found.parameters == 109_482_240
    built_in = flop(encode_work(known, sequences=1, length=128, precision=SIXTEEN, layout=Layout()))
    assert found.flop == pytest.approx(built_in, rel=0.01)


def test_the_denoiser_of_sdxl_as_its_unet_says() -> None:
    found = traced(networks.sdxl)
    unet = unet_of(offline(), catalog.model("stabilityai/stable-diffusion-xl-base-1.0"))
    assert unet is not None
    assert found.parameters == 2_567_463_684
    assert found.flop == pytest.approx(flop(unet_work(unet, resolution=1024, batch=1, precision=SIXTEEN)), rel=0.01)


def test_whisper_large_v3_as_encoder_and_decoder_say() -> None:
    known = catalog.model("openai/whisper-large-v3")
    found = traced(networks.whisper)
    assert found.parameters == 1_543_490_560 == parameters(known).value
    heard = flop(speech_encoder_work(known, windows=1, precision=SIXTEEN))
    written = 448 * flop(decoder_step_work(known, windows=1, context=224.5, precision=SIXTEEN))
    assert found.flop == pytest.approx(heard + written, rel=0.01)


def test_a_llama_block_as_the_transformer_says() -> None:
    known = catalog.model("meta-llama/Meta-Llama-3-8B")
    group = known.layers[0]
    found = traced(networks.llama_block)
    assert found.parameters == layer_parameters(group, known.hidden_size)
    tokens = Tokens(prompts=1, chunk=2048)
    whole = flop(step_work(known, tokens, precision=Precision(), layout=Layout()))
    head = 2.0 * known.hidden_size * known.vocab_size
    assert found.flop == pytest.approx((whole - head) / group.count, rel=0.01)


def test_a_backward_pass_is_twice_the_forward_one() -> None:
    found = traced(lambda: networks.resnet(side=64), training=True)
    assert 1.9 < found.backward_flop / found.flop < 2.0  # the first convolution needs no gradient of its input


def test_counts_are_per_sample_whatever_the_batch() -> None:
    one, four = traced(lambda: networks.vit(192, 2, 3, batch=1)), traced(lambda: networks.vit(192, 2, 3, batch=4))
    assert one.flop == pytest.approx(four.flop)
    assert one.peak_values == pytest.approx(four.peak_values, rel=0.01)
    assert flop(profile_work(one, batch=4, precision=SIXTEEN)) == pytest.approx(4 * four.flop)
    assert sum(op.weight_values * op.count for op in one.forward if op.flop) == pytest.approx(
        sum(op.weight_values * op.count for op in four.forward if op.flop)
    )


def test_messages_of_a_graph_are_look_ups_and_sums() -> None:
    found = traced(networks.graph, samples=1)
    kinds = {op.name: op for op in found.forward}
    assert {"lookup", "scatter", "linear", "activation"} <= set(kinds)
    assert kinds["lookup"].read_values == 60_000 * 128
    assert found.flop == pytest.approx(2 * 10_000 * (3 * 128 * 128 + 128 * 8))


def test_causal_attention_is_half_of_full_attention() -> None:
    def block(causal: bool) -> Callable[[], Any]:
        return lambda: (networks.Attention(256, 4, causal=causal), torch.zeros(1, 512, 256))

    full, half = traced(block(False)), traced(block(True))
    scores = 4 * 512 * 512 * 256
    assert full.flop - half.flop == pytest.approx(scores / 2)


class LanguageModel(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A small decoder with its loss, as training loops write it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(2000, 256)
        self.blocks = torch.nn.Sequential(*(networks.Block(256, 4, 1024, causal=True) for _ in range(2)))
        self.head = torch.nn.Linear(256, 2000)

    def forward(self, ids: Any, wanted: Any) -> Any:
        said = self.head(self.blocks(self.words(ids)))
        return torch.nn.functional.cross_entropy(said.flatten(0, 1), wanted.flatten())


class Segmenter(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Down, up, and a shortcut between."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.GroupNorm(8, 32)
        self.down, self.leave = torch.nn.Conv2d(32, 64, 3, 2, 1), torch.nn.Conv2d(96, 3, 3, padding=1)

    def forward(self, x: Any) -> Any:
        kept = torch.nn.functional.silu(self.norm(self.enter(x)))
        deep = torch.nn.functional.interpolate(torch.relu(self.down(kept)), scale_factor=2.0)
        return self.leave(torch.cat((kept, deep), 1))


SMALL: dict[str, Callable[[int], Any]] = {
    "convolutional": lambda batch: networks.resnet((1, 1, 1, 1), 32, 64, batch=batch),
    "vision transformer": lambda batch: networks.vit(192, 2, 3, batch=batch),
    "encoder": lambda batch: networks.bert(128, 2, 4, batch=batch, length=64),
    "decoder": lambda batch: (LanguageModel(), [torch.zeros(batch, 128, dtype=torch.int64)] * 2),
    "segmenter": lambda batch: (Segmenter(), torch.zeros(batch, 3, 64, 64)),
}
OPTIMIZERS: dict[str, tuple[Callable[[Any], Any], float, Callable[[Profile], float]]] = {
    "sgd": (lambda weights: torch.optim.SGD(weights, 1e-3), 0.0, lambda _: 0.0),
    "adamw": (lambda weights: torch.optim.AdamW(weights, 1e-3), 8.0, lambda p: 8.0 * p.largest_parameter),
    "adamw, foreach": (
        lambda weights: torch.optim.AdamW(weights, 1e-3, foreach=True), 8.0, lambda p: 4.0 * p.trainable_parameters
    ),
}  # fmt: skip


# Every network with the optimizer of most training, every optimizer once; all pairs in a sweep.
PAIRS = [*((name, "adamw") for name in SMALL), ("decoder", "sgd"), ("encoder", "adamw, foreach")]


@pytest.mark.parametrize(("name", "optimizer"), list(product(SMALL, OPTIMIZERS)) if FULL else PAIRS)
def test_peak_training_memory_as_torch_tracks_it(name: str, optimizer: str) -> None:
    """Traced at a batch of 2 without data; the real step runs a batch of 8 on this processor under MemTracker."""
    from torch.distributed._tools.mem_tracker import MemTracker

    make, states, beside = OPTIMIZERS[optimizer]
    found = traced(lambda: SMALL[name](2), training=True)
    net, given = SMALL[name](8)
    inputs = given if isinstance(given, list) else [given]
    stepper, tracker = make(net.parameters()), MemTracker()
    tracker.track_external(net, stepper, *inputs)
    with tracker:
        for _ in range(2):  # the optimizer's state comes with the first step
            tracker.reset_mod_stats()
            net(*inputs).sum().backward()
            stepper.step()
            stepper.zero_grad()
    measured = next(iter(tracker.get_tracker_snapshot("peak").values()))["Total"]
    held = 4 * (found.parameters + found.buffer_values) + states * found.trainable_parameters
    passes = (
        8 * (4 * moment.activation_values + moment.activation_bytes) + 4 * moment.gradient_values
        for moment in found.moments
    )
    predicted = held + max(*passes, 4 * found.trainable_parameters + beside(found))
    assert predicted == pytest.approx(measured, rel=0.05)


def test_a_frozen_module_has_no_training_part() -> None:
    def make() -> Any:
        return torch.nn.Linear(4, 4).requires_grad_(False), torch.zeros(1, 4)

    found = traced(make, training=True)
    assert not found.backward and "inference only" in found.notes[0]


def test_a_module_that_looks_at_values_is_told_so() -> None:
    class Loop(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x if x.sum().item() > 0 else -x

    with pytest.raises(BadRequest, match="looks at values"):
        traced(lambda: (Loop(), torch.zeros(1, 4)))


@pytest.mark.parametrize(
    ("made", "said"),
    [(3, "returned a int"), (torch.nn.Linear(2, 2), "no example inputs"), ("boom", "cannot be called")],
)
def test_what_is_no_module_is_one_sentence(made: Any, said: str) -> None:
    def make() -> Any:
        if made == "boom":
            raise ValueError("no weights here")
        return made

    with pytest.raises(BadRequest, match=said):
        traced(make)


def test_an_operator_that_no_table_holds_is_named() -> None:
    class Odd(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return torch.linalg.inv(x)

    found = traced(lambda: (Odd(), torch.zeros(1, 4, 4)))
    assert "linalg_inv_ex" in found.notes[0]


def test_inputs_by_name_and_by_place() -> None:
    spec = parse_input("ids=2x16:int64")
    assert (spec.name, spec.shape, spec.dtype) == ("ids", (2, 16), "int64")
    found = traced(lambda: networks.Bert(64, 1, 2), inputs=[spec])
    assert found.samples == 2 and found.inputs[0].dtype == "int64"
    for text in ("", "3y4", "0x3", "1x3:int99", "a b=1x2"):
        with pytest.raises(BadRequest):
            parse_input(text)


def test_a_target_is_loaded_by_name_or_file(tmp_path: Any) -> None:
    file = tmp_path / "net.py"
    file.write_text("from torch import nn\ndef make():\n    return nn.Linear(3, 2)\n", encoding="utf-8")
    assert isinstance(load(f"{file}:make")(), torch.nn.Linear)
    with pytest.raises(UnknownName, match="did you mean 'make'"):
        load(f"{file}:mak")
    for target in ("net", "no.such.module:make", f"{tmp_path}/none.py:make", "tests.networks:__doc__"):
        with pytest.raises(BadRequest):
            load(target)


def test_a_profile_stands_for_the_model_in_memory_and_training() -> None:
    model = model_of(traced(lambda: networks.resnet(side=64), training=True))
    assert parameters(model).value == 25_557_032
    assert model.network.input_px == 64


class Staged(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Looks at values while it is made, as most libraries of vision transformers do; one weight is shared."""

    def __init__(self) -> None:
        super().__init__()
        rates = [rate.item() for rate in torch.linspace(0, 0.1, 3)]
        self.layers = torch.nn.Sequential(
            *(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(rate)) for rate in rates)
        )
        self.register_buffer("table", torch.arange(8.0))
        self.head = torch.nn.Linear(8, 8, bias=False)
        self.tail = torch.nn.Linear(8, 8, bias=False)
        self.tail.weight = self.head.weight

    def forward(self, x: Any) -> Any:
        return self.tail(self.head(self.layers(x + self.table)))


def test_a_factory_that_looks_at_values_is_made_on_real_tensors() -> None:
    found = traced(lambda: (Staged(), torch.zeros(2, 8)), training=True)
    assert found.parameters == 3 * (8 * 8 + 8) + 8 * 8, "the shared weight once"
    assert found.flop == 5 * 2 * 8 * 8
    assert found.backward
    assert torch.nn.Linear(2, 2).weight.device.type == "cpu", "modules take their parameters as before"
