"""Steps as trees: the table's seconds, the engine's factors where they belong, and which of two binds."""

import msgspec
import pytest
from tests.simulation.test_steps import DENSE, placement
from tests.trees import gap, leaves

from tonnage.domain.answer import Evidence, Execution, Quantity
from tonnage.domain.engine_spec import Overheads
from tonnage.domain.model import Moe
from tonnage.domain.precision import Precision
from tonnage.physics.transformer import Tokens
from tonnage.simulation.served_tree import node_of
from tonnage.simulation.step_parts import Placement, parts_of, placed_work, seconds
from tonnage.simulation.step_tree import OpenTable, Pricing
from tonnage.simulation.steps import MixedStep, StepGrid, StepTable, step_grid, step_table

EXPERTS = Moe(num_experts=64, num_experts_per_tok=4, moe_intermediate_size=1024)
ENGINE = Evidence(tier="fitted", grid="an engine")


def opened(grid: StepGrid, overheads: Overheads, *, pricing: Pricing) -> OpenTable:
    return OpenTable.of(step_table(grid, overheads), grid, pricing=pricing)


def trees(at: Placement, overheads: Overheads, batch: float = 64.0) -> OpenTable:
    grid = step_grid(at, batch=batch, context=4096.0, chunk=8192.0, prompt=2048.0)
    return opened(grid, overheads, pricing=Pricing(placement=at, engine=ENGINE, datasheet=at.accelerator))


def decoded(table: OpenTable, sequences: float, *, context: float) -> Quantity:
    return node_of(table.decode_s(sequences, context))


def mixed_of(table: OpenTable, step: MixedStep) -> Quantity:
    return node_of(table.mixed_step_s(step))


def plain(table: OpenTable) -> StepTable:
    return step_table(table.grid, table.overheads)


def named(node: Quantity, name: str) -> list[Quantity]:
    return [leaf for leaf in leaves(node) if leaf.name == name]


def inner(node: Quantity, name: str) -> Quantity:
    """The first node of that name."""
    found = [part for part in node.parts if part.name == name]
    return found[0] if found else next(inner(part, name) for part in node.parts if name in str(part))


OVERHEADS = [
    Overheads(),
    Overheads(memory=1.1, compute=1.3, attention=0.9, touch=1.2, collective=1.1, kernel_s=-1e-7, step_s=1e-3),
    Overheads(narrow=1.4, weight_only=0.8, experts=1.5, experts_compute=2.0, sequence_s=1e-5, prompt_s=1e-4),
    Overheads(hidden_s=0.05, launch_s=1e-6, prefill_launch_s=2e-5, prefill_mixer_s=1e-4, prefill_kernel_s=1e-6),
    Overheads(bubble=0.1, reach_bytes_per_s=2e10),
]


@pytest.mark.parametrize("overheads", OVERHEADS, ids=range(len(OVERHEADS)))
@pytest.mark.parametrize("feed_forward", [DENSE, EXPERTS], ids=["dense", "experts"])
@pytest.mark.parametrize("weights", ["bf16", "fp8", "awq"])
def test_a_tree_is_worth_what_its_table_says(overheads: Overheads, feed_forward: object, weights: str) -> None:
    formats = Precision(weights=weights, activations="fp8" if weights == "fp8" else "bf16")
    at = trees(placement(feed_forward=feed_forward, precision=formats), overheads)
    decode = decoded(at, 40.0, context=1500.0)
    step = MixedStep(prompt_tokens=1500.0, prompts=2.0, sequences=20.0, context=900.0, cached=100.0)
    mixed = mixed_of(at, step)
    assert decode.value == pytest.approx(plain(at).decode_s(40.0, 1500.0), rel=1e-9)
    assert mixed.value == pytest.approx(plain(at).mixed_step_s(step), rel=1e-9)
    assert max(gap(decode), gap(mixed)) < 1e-9


def test_a_tree_of_beams_is_worth_what_its_table_says() -> None:
    at = trees(placement(beams=4.0), OVERHEADS[1])
    decode = decoded(at, 40.0, context=1500.0)
    assert decode.value == pytest.approx(plain(at).decode_s(40.0, 1500.0), rel=1e-9)
    heads = [leaf for leaf in leaves(decode) if leaf.execution and leaf.execution.kind == "attention_decode"]
    assert {leaf.execution.shape["batch"] for leaf in heads if leaf.execution} == {160}


@pytest.mark.parametrize("overheads", OVERHEADS[:3], ids=range(3))
def test_operators_add_up_to_the_step_without_its_table(overheads: Overheads) -> None:
    formats = Precision(weights="fp8", activations="fp8")
    at = trees(placement(feed_forward=EXPERTS, precision=formats), overheads)
    decode = decoded(at, 40.0, context=1500.0)
    rest = sum(leaf.value for leaf in named(decode, "table interpolation"))
    there, tokens = at.pricing.placement, Tokens(decodes=40.0, context=1500.0, emitted=40.0)
    parts = parts_of(placed_work(there, tokens), there)
    # The head is a piece of its own: factors on the mean product are those of the piece.
    assert decode.value - rest == pytest.approx(seconds(parts, overheads, sequences=40.0), rel=2e-3)


def test_a_factor_is_on_the_operators_that_it_is_of() -> None:
    formats = Precision(weights="bf16", experts="fp8", activations="bf16")
    at = placement(feed_forward=EXPERTS, precision=formats)
    plain, slower = (decoded(trees(at, o), 40.0, context=1500.0) for o in (Overheads(), Overheads(experts=2.0)))
    for before, after in zip(leaves(plain), leaves(slower), strict=False):
        assert before.name == after.name
        if before.execution is not None and before.execution.kind == "grouped_gemm":
            assert after.value > 1.5 * before.value
        elif before.execution is not None:
            assert after.value == pytest.approx(before.value, rel=1e-12)


def test_the_longer_of_accelerator_and_host_binds() -> None:
    at = placement()
    busy = decoded(trees(at, Overheads()), 8.0, context=500.0).value
    for hidden, binds in ((busy / 2, "accelerator"), (busy * 2, "hidden host work")):
        step = decoded(trees(at, Overheads(hidden_s=hidden)), 8.0, context=500.0)
        longest = step.parts[0]
        assert (longest.rule, longest.binds) == ("max", binds)
        assert step.value == pytest.approx(max(busy, hidden), rel=1e-9)


def test_launches_bind_a_small_step_with_prompts_and_kernels_a_large_one() -> None:
    at = trees(placement(), Overheads(prefill_launch_s=2e-5))
    small, large = (mixed_of(at, MixedStep(tokens, 1.0)) for tokens in (16.0, 8192.0))
    assert inner(small, "layers").binds == "launches by the host"
    assert inner(large, "layers").binds == "kernels of the layers"


def test_steps_wider_than_the_table_are_several_of_its_widest() -> None:
    at = placement()
    grid = step_grid(at, batch=4.0, context=4096.0, chunk=512.0, prompt=512.0)
    pricing = Pricing(placement=at, engine=ENGINE, datasheet=at.accelerator)
    wide = mixed_of(opened(grid, Overheads(), pricing=pricing), MixedStep(2064.0, 1.0))
    (up,) = named(wide, "feed-forward up")
    assert up.execution.shape["m"] == 516
    assert up.execution.count == 32 * 4
    assert "4 passes of 516 rows" in wide.how


def test_the_roofline_is_of_the_datasheet_not_of_what_an_engine_can_reach() -> None:
    at = placement()
    slow = msgspec.structs.replace(at.accelerator, memory_bytes_per_s=at.accelerator.memory_bytes_per_s / 2)
    grid = step_grid(at, batch=8.0, context=512.0, chunk=512.0, prompt=512.0)
    shares = []
    for sheet in (at.accelerator, slow):
        pricing = Pricing(placement=at, engine=ENGINE, datasheet=sheet)
        tree = decoded(opened(grid, Overheads(), pricing=pricing), 8.0, context=500.0)
        (up,) = named(tree, "feed-forward up")
        assert up.evidence.roofline_share is not None
        shares.append(up.evidence.roofline_share)
    assert shares[1] == pytest.approx(2 * shares[0], rel=1e-9)


def test_a_tree_that_does_not_add_up_is_noticed() -> None:
    run = Execution(kind="gemm", count=2.0, once_s=1.5, factor=2.0)
    leaf = Quantity(name="product", value=6.0, unit="s", execution=run, evidence=Evidence(tier="own"))
    host = Quantity(name="host", value=7.0, unit="s")
    step = Quantity.longest("step", (leaf, host))
    rate = Quantity.rate("rate", (Quantity.total("request", (step,), times=3.0),), times=42.0, unit="1/s")
    assert (step.binds, step.value, rate.value, gap(rate)) == ("host", 7.0, 2.0, 0.0)
    for wrong in (
        msgspec.structs.replace(leaf, value=5.0),
        msgspec.structs.replace(step, binds="product"),
        msgspec.structs.replace(rate, value=2.1),
        msgspec.structs.replace(rate, parts=(msgspec.structs.replace(rate.parts[0], value=20.0),)),
    ):
        assert gap(wrong) > 0.01
