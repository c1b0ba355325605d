"""Published rows as points: the table that ships holds what this release's own fits leave, and sentences name it."""

import pytest

from tonnage import catalog
from tonnage.catalog import gather
from tonnage.catalog.published import FILE, _known, published_points
from tonnage.domain.calibration import Stretch

STACK = ("h200-sxm-141gb", "sglang", "deepseek-ai/DeepSeek-R1")


def test_a_stack_has_the_points_of_one_model() -> None:
    own = published_points(*STACK[:2], model=STACK[2])
    assert own.models == STACK[2:] and own.stretch == Stretch() and not own.factors
    assert 10 <= own.points <= len(own.learnt) and "InferenceMAX" in own.source
    assert {one.quantity for one in own.learnt} == {"tpot_s", "ttft_s", "output_tokens_per_s"}
    assert published_points(*STACK[:2], model="mistralai/Mistral-7B-v0.1") is None


def test_every_point_is_of_a_known_part_and_within_a_factor_of_three() -> None:
    parts = catalog.accelerators()
    assert len(_known()) > 100 and FILE.stat().st_size < 100_000
    for (part, _, model), own in _known().items():
        assert part in parts and own.models == (model,) and own.source and 0 < own.points <= len(own.learnt)
        assert all(abs(one.left) <= 1.1 and len(one.place) == 7 and one.noise > 0.0 for one in own.learnt)


@pytest.mark.parametrize(
    ("paths", "calibrated", "published"),
    [((), True, False), (("published",), True, True), (("none",), False, False), (("none", "published"), False, False)],
)
def test_they_count_where_they_are_asked_for(paths: tuple[str, ...], calibrated: bool, published: bool) -> None:
    found = gather(paths=paths)
    assert (found.calibrated, found.published) == (calibrated, published)
    assert not {"none", "published"} & set(found.paths)
    assert catalog.accelerators(found)["h200-sxm-141gb"].published == published
