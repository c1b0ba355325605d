"""Images in the traffic: what they add to prompts, where they are encoded, and that each place is priced."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from tests.command import told

import tonnage
from tonnage.errors import BadRequest

ASKED = {
    "model": "Qwen/Qwen2.5-VL-72B-Instruct", "rate": "4/s", "images": 4, "image_size": "1024x1024", "ttft": "2 s",
    "tpot": "60 ms", "accelerator": "H100", "precision": "fp8", "quick": True,
}  # fmt: skip


def plan(**changes: Any) -> Any:
    return tonnage.plan_serve(**ASKED | changes)


@pytest.fixture(scope="module")
def large() -> Any:
    return plan()


def test_tokens_of_images_are_part_of_the_prompt(large: Any) -> None:
    text, seen = plan(images=None, image_size=None).request.lengths, large.request.lengths
    assert seen.prompt_tokens == text.prompt_tokens + 4 * 1369
    assert (seen.images.patches, seen.images.tokens) == (74.0**2, 1369.0)


def test_both_ways_on_the_ranks_are_options_and_whole_images_lead() -> None:
    """Of every size that both are options of: which sizes these are follows from the predictions."""
    found = plan(confidence="50%")
    first = next(option for option in found.options if option.configuration.pools is None)
    assert first.configuration.engine.mm_encoder_tp_mode == "data" and first.configuration.layout.tp > 1
    sizes: dict[int, dict[str | None, Any]] = {}
    for option in found.options:
        if option.configuration.pools is None:
            own = sizes.setdefault(option.configuration.layout.tp, {})
            own[option.configuration.engine.mm_encoder_tp_mode] = option
    both = [own for own in sizes.values() if set(own) == {None, "data"}]
    assert both
    for own in both:
        assert own[None].replicas >= own["data"].replicas
        assert own["data"].capacity.ttft_mean_s < own[None].capacity.ttft_mean_s


def test_every_place_is_priced_and_told(large: Any) -> None:
    found = large.images
    assert [way.configuration for way in found.ways][1].endswith("encoder DP")
    divided, dealt, split, together, _ = found.ways
    assert dealt.encode_s < divided.encode_s and together.move_s > 0.0
    tp = large.options[0].configuration.layout.tp
    units = [re.search(r"(\d+)e(?:(\d+)p)?(\d+)p?d$", way.configuration.lower()) for way in (split, together)]
    first_encoders = int(units[0].group(1))
    for way, unit in zip((split, together), units, strict=True):
        encode, *others = (int(count or 0) for count in unit.groups())
        assert way.accelerators == encode + tp * sum(others)
        # Whole images, dealt out to the encoders: the last one of the request waits for its turn.
        assert way.encode_s == pytest.approx(math.ceil(4 / encode) * split.encode_s / math.ceil(4 / first_encoders))
    # Encoders of their own take the encoder out of the steps, so that a unit takes more than a replica.
    assert divided.rate_per_s < dealt.rate_per_s < together.rate_per_s
    page = html.unescape(re.sub(r"<[^>]+>", "", large._repr_html_()))
    assert "Where images are encoded" in page and found.sentence in page


def test_a_small_model_may_rank_units_with_encoders_and_pictures_show_the_places(tmp_path: Path) -> None:
    small = plan(model="google/gemma-3-4b-it", images=8, rate="48/s", ttft="350 ms", tpot="15 ms")
    units = [o for o in small.options if (pools := o.configuration.pools) is not None and pools.encode]
    assert units, [o.configuration.label() for o in small.options]
    first = units[0]
    pools = first.configuration.pools
    assert first.accelerators == first.replicas * (pools.encode + pools.prefill + pools.decode)
    name = f"{pools.encode}E" + (f"{pools.prefill}P{pools.decode}D" if pools.prefill else f"{pools.decode}PD")
    assert name in first.configuration.settings()
    plain = {o.configuration.layout.tp: o for o in small.options if o.configuration.pools is None}
    same = plain.get(first.configuration.layout.tp)
    assert same is None or first.bill.usd_per_hour < same.bill.usd_per_hour
    assert "images" in [chart.name for chart in tonnage.charts(small)]
    (tmp_path / "plan.json").write_text(json.dumps(tonnage.to_dict(small)))
    rank = small.options.index(first) + 1
    refused = told("export", tmp_path / "plan.json", "--to", "vllm", "--option", rank, "-o", tmp_path / "files")
    assert refused.exit_code == 2 and "--mm-encoder-only" in " ".join(refused.output.split())


def test_images_found_again_cost_less() -> None:
    costs = [plan(rate="40/s", image_hits=hits).options[0].bill.usd_per_hour for hits in (None, "90 %")]
    assert costs[1] <= costs[0]
    kept = plan(distinct_images=2000).images
    beside, apart = kept.ways[0].hits, kept.ways[3].hits
    assert beside < 0.01 < apart <= 1.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image_size": None}, "image_size is missing"),
        ({"image_size": "large"}, "no size in pixels"),
        ({"image_size": "4"}, "outside 8 to 20,000"),
        ({"images": None}, "says nothing without images"),
        ({"turns": 4, "turn_gap": "5 s"}, "images and turns"),
        ({"image_hits": "50 %", "distinct_images": 10}, "contradict"),
        ({"model": "meta-llama/Llama-3.1-8B"}, "no vision encoder"),
    ],
)
def test_what_images_cannot_be_is_said_in_a_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        plan(**changes)
