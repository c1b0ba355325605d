"""The shared numbers are complete, bounded, and found by any usual name."""

import pytest

from tonnage import catalog
from tonnage.catalog.fitted import offline, runtime_of, shape_of, silicon_of, unet_of

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
    assert found is not None and found.control
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
