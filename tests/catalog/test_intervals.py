"""Fitted facts: intervals, failures, engines of networks and of training."""

from statistics import NormalDist

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.catalog import fitted
from tonnage.catalog.failures import interruptions, run_fact, spot_uptime
from tonnage.catalog.fitted import (
    offline,
    runtime_of,
    shape_of,
    silicon_of,
    training_coefficients,
    unet_of,
    with_training_totals,
)
from tonnage.catalog.spreads import (
    FEWEST,
    KINDS,
    NINETY,
    TAKES,
    ErrorOf,
    chance_of,
    end_at,
    errors,
    spread,
    spread_of,
)
from tonnage.domain.model import Attention
from tonnage.errors import UnknownName

LEVEL = "known-host:steady:dense:calibrated:vllm"


@pytest.mark.parametrize("kind", KINDS)
def test_every_quantity_is_off_by_something(kind: str) -> None:
    known = getattr(errors(), kind)
    aliases = {quantity for of, quantity in TAKES if of == kind}
    assert {"serve": "tpot_s", "train": "step_s", "infer": "samples_per_s"}[kind] in known
    for quantity in {*known, *aliases}:
        assert 0.0 < spread(kind, quantity).width < 2.0


def test_a_word_that_nobody_measured_widens_and_none_takes_the_mean() -> None:
    mean, odd = spread("serve", "tpot_s"), spread("serve", "tpot_s", level="no such rung")
    assert odd.width == pytest.approx(mean.width * errors().unknown) and odd.width > mean.width


def test_a_borrowed_host_is_less_sure_and_a_time_errs_as_its_rate_turned() -> None:
    assert (
        spread("serve", "tpot_s", level=LEVEL).width
        < spread("serve", "tpot_s", level=LEVEL.replace("known", "borrowed")).width
    )
    assert spread("serve", "e2e_s", level=LEVEL) == spread("serve", "requests_per_s", level=LEVEL).turned


def test_fewer_than_nine_sources_are_not_certifiable() -> None:
    own = ErrorOf(bias=0.0, width=0.3, sources=12, evidence={"calibrated": FEWEST, "derived": FEWEST - 1})
    said = [
        spread_of({"step_s": own}, "train", quantity="step_s", level=level)
        for level in ("calibrated:a", "derived:a", "")
    ]
    assert [one.certified for one in said] == [True, False, True]
    few = ErrorOf(bias=0.0, width=0.3, sources=FEWEST - 1)
    assert not spread_of({"step_s": few}, "train", quantity="step_s", level="").certified


@given(st.floats(0.01, 0.99))
def test_an_end_is_where_its_chance_is(chance: float) -> None:
    assert chance_of(end_at(chance)) == pytest.approx(chance, abs=1e-9)


def test_tails_are_heavier_than_a_normals() -> None:
    assert chance_of(2.0) < NormalDist().cdf(2.0 * NINETY) and chance_of(0.5) > NormalDist().cdf(0.5 * NINETY)


@pytest.mark.parametrize("kind", KINDS)
def test_causes_leave_each_number_an_error_of_its_own(kind: str) -> None:
    found = fitted.causes(kind)
    assert {cause.name for cause in found} == {"kernels", "host", "stack"}
    assert 0.0 < sum(cause.share for cause in found) < 1.0


def test_an_unknown_kind_or_quantity_is_named() -> None:
    with pytest.raises(UnknownName, match="served"):
        spread("served", "ttft_s")
    with pytest.raises(UnknownName, match="ttft_ms"):
        spread("serve", "ttft_ms")


FAILURES = ("detect_and_restart", "start_up", "repair", "state_per_parameter", "storage_write", "storage_per_node",
         "staging", "barrier")  # fmt: skip


@pytest.mark.parametrize("key", FAILURES)
def test_each_figure_lies_in_its_band_and_names_its_source(key: str) -> None:
    fact = run_fact(key)
    assert 0 < fact.low <= fact.value <= fact.high
    assert fact.source and fact.unit


@pytest.mark.parametrize("nodes", [1, 48, 2048])
def test_rates_lie_in_their_band(nodes: int) -> None:
    rate = interruptions(nodes=nodes)
    assert 0 < rate.low < rate.per_node_day < rate.high
    assert rate.source


def test_flagship_clusters_fail_less_per_node_than_small_jobs() -> None:
    assert interruptions(nodes=2048).per_node_day < interruptions(nodes=8).per_node_day


def test_spot_capacity_beyond_what_was_traced_stays_up_for_less() -> None:
    up = [spot_uptime(instances=n).mean_up_s for n in (16, 32, 64)]
    assert up == sorted(up, reverse=True)
    assert spot_uptime(instances=1).availability < 1


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(UnknownName, match="detect_and_restart"):
        run_fact("detect_and_restrt")


FACTS = offline()


def test_efficiencies_are_shares() -> None:
    assert all(0 < style.compute <= 1 for style in FACTS.styles)
    assert all(0 < runtime.narrow <= 1.1 and 0 < runtime.products <= 1.1 for runtime in FACTS.runtimes)
    assert all(0 < silicon.efficiency <= 1.3 for silicon in FACTS.silicon)


def test_every_shape_has_a_style_and_layers() -> None:
    styles = {style.name for style in FACTS.styles}
    for shape in FACTS.shapes:
        assert shape.style in styles
        assert shape.kernels or shape.kernels_per_depth


def test_every_accelerator_belongs_somewhere() -> None:
    for accelerator in catalog.accelerators().values():
        assert silicon_of(FACTS, accelerator) in FACTS.silicon


@pytest.mark.parametrize(
    ("name", "style", "depth"),
    [
        ("timm/resnet152.a1_in1k", "convolution", 152),
        ("timm/efficientnet_b4.ra2_in1k", "separable", 4),
        ("timm/regnety_160.swag_ft_in1k", "grouped", None),
        ("torchvision/retinanet_resnext50_32x4d_fpn", "convolution", None),
        ("nvidia/ssd300-resnet50", "convolution", None),
        ("ultralytics/yolo11x", "convolution", None),
    ],
)
def test_families_are_known_by_name(name: str, style: str, depth: float | None) -> None:
    shape, found = shape_of(FACTS, catalog.model(name))
    assert (shape.style, found) == (style, depth)


def test_other_names_of_an_engine() -> None:
    assert runtime_of(FACTS, "diffusers", mode="dynamo")[0] is runtime_of(FACTS, "pytorch", mode="compile")[0]
    assert runtime_of(FACTS, "TRT")[0].engine == "tensorrt"


def test_an_unknown_engine_is_a_stand_in() -> None:
    runtime, borrowed = runtime_of(FACTS, "my-own-engine")
    assert borrowed and runtime.engine == "generic"


def test_unets_are_found_by_family() -> None:
    found = unet_of(FACTS, catalog.model("lllyasviel/sd15-controlnet"))
    assert found.control
    assert unet_of(FACTS, catalog.model("black-forest-labs/FLUX.1-dev")) is None


def test_every_row_says_where_it_comes_from() -> None:
    for rows in (FACTS.runtimes, FACTS.silicon, FACTS.styles, FACTS.shapes, FACTS.unets):
        assert all(row.source for row in rows)


def test_servers_of_blackwell_reach_no_more_of_their_peak_than_hopper_and_cdna_3_what_was_measured() -> None:
    hopper, server, ultra, card, cdna = (
        silicon_of(FACTS, catalog.accelerator(name)) for name in ("h100", "b200", "gb300", "rtx-5090", "mi325x")
    )
    assert server.efficiency == ultra.efficiency <= hopper.efficiency < card.efficiency
    product = next(style.compute for style in FACTS.styles if style.name == "product")
    assert cdna.efficiency * product * catalog.accelerator("mi300x").peaks["bf16"] == pytest.approx(620e12, rel=0.02)


def test_coefficients_are_dated_and_physical() -> None:
    found = training_coefficients()
    assert found.fitted >= "2026"
    assert found.source
    for table in (found.gemm, found.narrow, found.memory, found.expert):
        assert all(0.05 < share < 1 for share in table.values())
    for name in ("link", "network", "host_link", "tensor_overlap", "data_overlap", "unaligned", "ragged"):
        assert 0 <= getattr(found, name) <= 1, name


def test_every_table_has_a_row_for_every_software_or_a_fallback() -> None:
    found = training_coefficients()
    families = {"megatron", "deepspeed", "fsdp", "eager", "compiled", "jax"}
    for name in ("passes", "layer_s", "step_s", "turn_s", "activation"):
        assert set(getattr(found, name)) == families, name
    for name in ("gemm", "narrow", "attention", "memory"):
        assert "*" in getattr(found, name), name


def test_models_with_layers_are_left_alone() -> None:
    llama = catalog.model("meta-llama/Meta-Llama-3-8B")
    assert with_training_totals(llama) is llama


def test_transformer_xl_is_recurrent_with_a_short_head() -> None:
    model = with_training_totals(catalog.model("nvidia/transformer-xl-base-wt103"))
    mixer = model.layers[0].mixer
    assert isinstance(mixer, Attention)
    assert mixer.segment_recurrence
    assert model.head_columns < model.vocab_size / 4


@pytest.mark.parametrize("name", ["nvidia/nnunet-3d", "nvidia/nnunet-2d", "torchvision/maskrcnn_resnet50_fpn"])
def test_counted_networks_carry_activation_values(name: str) -> None:
    network = with_training_totals(catalog.model(name)).network
    assert network.activation_values
    assert msgspec.structs.asdict(network)["flop"] > 1e9
