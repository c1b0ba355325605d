"""What must hold for any serving case: better hardware is never slower, more work is never faster."""

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.catalog.efficiency import ladder
from tonnage.catalog.engines import engine_times
from tonnage.domain.engine_spec import Overheads
from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Moe
from tonnage.domain.precision import Precision
from tonnage.simulation.closed_loop import Load, closed_loop, static_batch
from tonnage.simulation.step_parts import Placement
from tonnage.simulation.steps import MixedStep, StepTable, step_grid, step_table

ONE = Layout()
DENSE = Mlp(intermediate_size=14336)
MIXTURE = Moe(num_experts=32, num_experts_per_tok=4, moe_intermediate_size=2048)
H100 = "h100-sxm5-80gb"
ENGINES = ("vllm", "sglang", "trtllm", "hf", "llamacpp", "tgi")


def model(feed_forward=DENSE) -> Model:
    mixer = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128)
    layer = LayerGroup(count=32, mixer=mixer, feed_forward=feed_forward)
    return Model(id="m", family="m", kind="llm", hidden_size=4096, vocab_size=128256, layers=(layer,))


def placement(accelerator=H100, *, feed_forward=DENSE, layout=ONE, **changes) -> Placement:
    part = catalog.accelerator(accelerator)
    return Placement(
        model=model(feed_forward),
        accelerator=msgspec.structs.replace(part, **changes),
        precision=Precision(),
        layout=layout,
        ladder=ladder(part),
    )


def table(at: Placement, engine="vllm", *, batch=64.0) -> StepTable:
    overheads = Overheads(**engine_times(engine, vendor="NVIDIA").values)
    return step_table(step_grid(at, batch=batch, context=4096.0, chunk=8192.0, prompt=2048.0), overheads)


def steps(found: StepTable) -> list[float]:
    return [
        found.decode_s(1, 500),
        found.decode_s(64, 3000),
        found.mixed_step_s(MixedStep(prompt_tokens=8192, prompts=4, sequences=0, context=0)),
        found.mixed_step_s(MixedStep(prompt_tokens=500, prompts=1, sequences=32, context=2000)),
    ]


FASTER = 1.000001


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("feed_forward", [DENSE, MIXTURE])
@settings(max_examples=8, deadline=None)
@given(factor=st.floats(1.02, 3.0))
def test_more_bandwidth_never_slows(engine, feed_forward, factor) -> None:
    base = placement(feed_forward=feed_forward)
    more = placement(feed_forward=feed_forward, memory_bytes_per_s=base.accelerator.memory_bytes_per_s * factor)
    pairs = zip(steps(table(base, engine)), steps(table(more, engine)), strict=True)
    assert all(fast <= slow * FASTER for slow, fast in pairs)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=8, deadline=None)
@given(factor=st.floats(1.02, 3.0))
def test_more_arithmetic_never_slows(engine, factor) -> None:
    base = placement()
    more = placement(peaks={name: peak * factor for name, peak in base.accelerator.peaks.items()})
    pairs = zip(steps(table(base, engine)), steps(table(more, engine)), strict=True)
    assert all(fast <= slow * FASTER for slow, fast in pairs)


@settings(max_examples=8, deadline=None)
@given(factor=st.floats(1.05, 4.0))
def test_a_faster_link_never_slows(factor) -> None:
    layout = Layout(tp=4)
    base = placement("mi300x", layout=layout)  # no measured collectives: the link's own rate decides
    link = base.accelerator.link
    faster = msgspec.structs.replace(link, bytes_per_s=(link.bytes_per_s or 50e9) * factor)
    more = placement("mi300x", layout=layout, link=faster)
    pairs = zip(steps(table(base)), steps(table(more)), strict=True)
    assert all(fast <= slow * FASTER for slow, fast in pairs)


@settings(max_examples=20, deadline=None)
@given(prompt=st.integers(16, 4000), output=st.integers(2, 1000), batch=st.sampled_from([1.0, 4.0, 32.0]))
@example(prompt=1985, output=2, batch=4.0)  # four prompts that just outgrow one step
def test_more_tokens_are_never_faster(prompt, output, batch) -> None:
    one, longer, more = (
        static_batch(BASE, Load(prompt_tokens=tokens, output_tokens=answer, budget=8192, slots=256), batch=batch)
        for tokens, answer in ((prompt, output), (prompt + 64, output), (prompt, output + 8))
    )
    assert longer.ttft_s >= one.ttft_s
    assert more.e2e_s >= one.e2e_s


@settings(max_examples=20, deadline=None)
@given(low=st.integers(1, 60), more=st.integers(1, 60))
def test_higher_concurrency_never_lowers_the_mean_step(low, more) -> None:
    load = Load(prompt_tokens=512, output_tokens=256, budget=8192, slots=256)
    few = closed_loop(BASE, load, clients=low)
    many = closed_loop(BASE, load, clients=low + more)
    assert many.tpot_s >= few.tpot_s * 0.97  # lengths are drawn, so neighbours differ a little
    assert many.requests_per_s >= few.requests_per_s * 0.97


def test_h200_decodes_faster_and_prefills_alike() -> None:
    h100, h200 = table(placement()), table(placement("h200-sxm-141gb"))
    assert h200.decode_s(16, 3000) < 0.9 * h100.decode_s(16, 3000)
    prompt = {"prompt_tokens": 8192, "prompts": 4, "sequences": 0, "context": 0}
    assert h200.mixed_step_s(MixedStep(**prompt)) == pytest.approx(h100.mixed_step_s(MixedStep(**prompt)), rel=0.08)


BASE = table(placement())


def test_an_engine_without_a_budget_prefills_everything_at_once() -> None:
    bounded, free = (
        static_batch(BASE, Load(prompt_tokens=512.0, output_tokens=8.0, budget=budget, slots=256.0), batch=4.0)
        for budget in (2048.0, float("inf"))
    )
    assert free.ttft_s == pytest.approx(bounded.ttft_s) and free.ttft_s > 0
