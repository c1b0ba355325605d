"""Laws of training that hold for any layout: more memory for more, less for sharded, time never negative."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.training_setups import train_setup

from tonnage import catalog
from tonnage.catalog.fitted import training_coefficients
from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model
from tonnage.domain.training import TrainSetup
from tonnage.physics.training_memory import training_memory
from tonnage.simulation.training import model_flop, step_time

H100 = catalog.accelerator("h100-sxm5-80gb")
COEFFICIENTS = training_coefficients()

powers = st.sampled_from([1, 2, 4, 8])


@st.composite
def models(draw: st.DrawFn) -> Model:
    heads = draw(st.sampled_from([8, 16, 32, 64]))
    kv_heads = draw(st.sampled_from([k for k in (1, 8, heads) if k <= heads]))
    layer = LayerGroup(
        count=draw(st.integers(8, 64)),
        mixer=Attention(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=128),
        feed_forward=Mlp(intermediate_size=draw(st.sampled_from([4096, 11008, 28672])), gated=draw(st.booleans())),
    )
    return Model(
        id="any",
        family="any",
        kind="llm",
        hidden_size=heads * 128,
        vocab_size=draw(st.sampled_from([32000, 128256])),
        layers=(layer,),
    )


@st.composite
def setups(draw: st.DrawFn) -> TrainSetup:
    software = draw(st.sampled_from(["megatron", "deepspeed", "fsdp", "eager", "compiled", "jax"]))
    return train_setup(
        method=draw(st.sampled_from(["pretrain", "full", "lora", "qlora"])),
        layout=TrainLayout(
            tp=draw(powers),
            pp=draw(powers),
            cp=draw(st.sampled_from([1, 2])),
            dp=draw(powers),
            sharding=draw(st.sampled_from(["none", "zero1", "zero2", "zero3", "fsdp", "hsdp"])),
        ),
        micro_batch=draw(st.integers(1, 8)),
        num_micro_batches=draw(st.integers(1, 32)),
        seq_len=draw(st.sampled_from([512, 2048, 8192])),
        precision=draw(st.sampled_from(["fp32", "tf32", "fp16", "bf16", "fp8"])),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        optimizer=draw(st.sampled_from(["adamw", "sgd", "lion", "adamw-8bit", "muon"])),
        flash_attention=draw(st.booleans()),
        software=software,
    )


def bytes_of(model: Model, setup: TrainSetup) -> float:
    return training_memory(replace(setup, model=model, accelerator=H100), memory_kind="device").value


def seconds_of(model: Model, setup: TrainSetup) -> float:
    return step_time(replace(setup, model=model, accelerator=H100)).value


@given(models(), setups())
@settings(max_examples=60, deadline=None)
def test_every_part_is_a_size_or_a_time(model: Model, setup: TrainSetup) -> None:
    memory = training_memory(replace(setup, model=model, accelerator=H100))
    step = step_time(replace(setup, model=model, accelerator=H100))
    assert all(part.value >= 0 for part in (*memory.parts, *step.parts))
    assert memory.value > 0
    assert step.value > 0


@given(st.sampled_from(["meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1"]), setups(), setups(), powers)
@settings(max_examples=60, deadline=None)
def test_turns_found_for_one_layout_hold_for_others_of_its_ranks(
    name: str, setup: TrainSetup, other: TrainSetup, ep: int
) -> None:
    model, known = catalog.model(name), dict[Any, Any]()
    layout = replace(setup.layout, ep=ep)
    moved = replace(layout, pp=other.layout.pp, dp=other.layout.dp, sharding=other.layout.sharding)
    for one in (
        replace(setup, layout=layout),
        replace(setup, layout=moved, num_micro_batches=other.num_micro_batches),
        replace(  # all that a search varies
            setup,
            layout=other.layout,
            micro_batch=other.micro_batch,
            num_micro_batches=other.num_micro_batches,
            recompute=other.recompute,
            recompute_share=other.recompute_share,
            software=other.software,
        ),
    ):
        kept = step_time(replace(one, model=model, accelerator=H100), known=known)
        assert kept == step_time(replace(one, model=model, accelerator=H100))


@given(models(), setups())
@settings(max_examples=40, deadline=None)
def test_longer_sequences_and_larger_micro_batches_never_need_less(model: Model, setup: TrainSetup) -> None:
    assert bytes_of(model, replace(setup, seq_len=2 * setup.seq_len)) >= bytes_of(model, setup)
    assert bytes_of(model, replace(setup, micro_batch=2 * setup.micro_batch)) >= bytes_of(model, setup)


@given(models(), setups())
@settings(max_examples=40, deadline=None)
def test_recompute_trades_memory_for_time(model: Model, setup: TrainSetup) -> None:
    none, full = replace(setup, recompute="none"), replace(setup, recompute="full")
    assert bytes_of(model, full) <= bytes_of(model, none) * 1.05  # one layer's working set against many kept
    assert seconds_of(model, full) >= seconds_of(model, none) * (1 - 1e-12)  # sums in another order


@given(models(), setups())
@settings(max_examples=40, deadline=None)
def test_sharding_the_optimizer_never_adds_memory(model: Model, setup: TrainSetup) -> None:
    plain = replace(setup, layout=replace(setup.layout, sharding="none"))
    first = replace(setup, layout=replace(setup.layout, sharding="zero1"))
    assert bytes_of(model, first) <= bytes_of(model, plain) * 1.0001


@given(models(), setups(), st.floats(1.1, 4.0))
@settings(max_examples=40, deadline=None)
def test_a_faster_accelerator_is_never_slower(model: Model, setup: TrainSetup, factor: float) -> None:
    faster = replace(
        H100,
        memory_bytes_per_s=H100.memory_bytes_per_s * factor,
        peaks={dtype: peak * factor for dtype, peak in H100.peaks.items()},
    )
    better = step_time(replace(setup, model=model, accelerator=faster)).value
    assert better <= seconds_of(model, setup) * 1.0001


@given(models(), setups())
@settings(max_examples=40, deadline=None)
def test_no_step_beats_the_peak(model: Model, setup: TrainSetup) -> None:
    """Model FLOP over all ranks at the fastest peak of the card bound every step from below."""
    ideal = model_flop(replace(setup, model=model)) / (setup.layout.ranks * max(H100.peaks.values()))
    assert seconds_of(model, setup) > ideal


@given(models(), setups())
@settings(max_examples=40, deadline=None)
def test_accumulating_twice_takes_at_most_twice(model: Model, setup: TrainSetup) -> None:
    once, twice = (
        seconds_of(model, setup),
        seconds_of(model, replace(setup, num_micro_batches=2 * setup.num_micro_batches)),
    )
    assert once < twice <= 2.0001 * once
