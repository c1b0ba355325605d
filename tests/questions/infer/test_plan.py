"""`plan infer`: loads against capacities, decoders, batteries, precision support, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from tests.command import answered

import tonnage
from tonnage.errors import BadRequest, UnknownName

CAMERAS: dict[str, Any] = {"model": "ultralytics/yolov8m", "streams": 20, "fps": 25, "resolution": 640}


def plan(**fields: Any) -> Any:
    return tonnage.plan_infer(**{"model": None, **fields})


def test_twenty_cameras_are_carried_by_every_option() -> None:
    found = plan(**CAMERAS, latency="200 ms")
    assert found.feasible
    for option in found.options:
        assert option.sure is (option.chance >= 0.8)
        if option.chance >= 0.95:
            assert option.count * (option.capacity_per_s.low or 0.0) >= 500 * 0.999
        assert option.count * option.capacity_per_s.value >= 500
        assert option.used <= 0.8
        assert option.latency_s.value <= 0.2
    costs = [(o.bill.trust != "primary", o.bill.usd_per_hour) for o in found.options if o.bill is not None]
    assert costs == sorted(costs)


def test_more_cameras_never_need_fewer_accelerators() -> None:
    counts = [plan(**{**CAMERAS, "streams": n}, accelerator="T4").options[0].count for n in (1, 10, 20, 80, 320)]
    assert counts == sorted(counts) and counts[0] == 1 and counts[-1] > counts[2]


def test_one_frame_in_five_is_a_fifth_of_the_work_and_all_of_the_decoding() -> None:
    whole = plan(**{**CAMERAS, "streams": 100}, accelerator="T4").options[0]
    fifth = plan(**{**CAMERAS, "streams": 100}, every=5, accelerator="T4").options[0]
    assert fifth.count < whole.count
    assert (fifth.decode_used or 0) * fifth.count == pytest.approx((whole.decode_used or 0) * whole.count)


def test_decoders_bind_where_little_is_looked_at() -> None:
    found = plan(**{**CAMERAS, "streams": 200}, every=25, accelerator="T4").options[0]
    share = 200 * 25 / (38 * 30)
    assert found.binds == "decode"
    assert found.count == -(-share // 0.8)
    assert found.decode_used == pytest.approx(share / found.count)


def test_an_hevc_stream_may_borrow_the_h264_rate_but_not_the_other_way() -> None:
    hevc, h264 = (plan(**CAMERAS, accelerator="T4", codec=codec).options[0] for codec in ("hevc", "h264"))
    assert hevc.decode_used == h264.decode_used > 0.0
    nano = {codec: plan(**CAMERAS, accelerator="jetson-orin-nano-8gb", codec=codec) for codec in ("hevc", "h264")}
    assert nano["hevc"].options[0].decode_used > 0.0 and nano["h264"].options[0].decode_used is None


def test_a_format_without_a_unit_is_refused_with_the_part() -> None:
    found = plan(**CAMERAS, precision="fp8", accelerator="T4")
    assert not found.feasible
    assert found.binding.limit == "precision" and "no fp8 unit" in (found.binding.reason or "")


def test_an_idle_large_part_names_the_smaller_one() -> None:
    found = plan(model="timm/resnet50.a1_in1k", rate="10/s", accelerator="A100")
    assert found.options[0].used < 0.05
    assert "would do alone" in found.smaller


def test_a_battery_lasts_as_long_as_its_energy() -> None:
    found = plan(model="ultralytics/yolov8n", streams=4, fps=15, resolution=640, battery="90 Wh", segment="edge")
    for option in found.options:
        assert option.battery_h == pytest.approx(90 / option.power_w)
    draws = [option.power_w or 0.0 for option in found.options]
    assert draws == sorted(draws)
    long = plan(model="ultralytics/yolov8n", streams=4, fps=15, resolution=640, battery="1 Wh", hours=8, segment="edge")
    assert not long.feasible and long.binding.limit == "battery"


def test_latency_that_nothing_meets_says_by_how_much() -> None:
    found = plan(model="stabilityai/stable-diffusion-xl-base-1.0", rate="1/s", latency="10 ms")
    assert not found.feasible
    assert found.binding.limit == "latency" and (found.binding.short_by or 0) > 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": "timm/resnet50.a1_in1k"}, "no load is given"),
        ({**CAMERAS, "rate": "1/s"}, "contradict"),
        ({"model": "timm/resnet50.a1_in1k", "streams": 2}, "without fps"),
        ({"model": "timm/resnet50.a1_in1k", "rate": "1/s", "fps": 25}, "belongs to video"),
        ({**CAMERAS, "frame": "big"}, "no frame size"),
        ({**CAMERAS, "hours": 3}, "give battery"),
        ({"model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "1/s"}, "plan serve"),
        ({"rate": "1/s"}, "model is missing"),
    ],
)
def test_what_contradicts_is_one_sentence(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        plan(**fields)
    with pytest.raises(UnknownName):
        plan(**CAMERAS, codec="vp9")


def test_clips_beams_and_images_that_are_asked_about() -> None:
    clip = plan(model="Wan-AI/Wan2.1-T2V-14B", rate="10/h", resolution=480, accelerator=["h100-sxm5-80gb"])
    short = plan(model="Wan-AI/Wan2.1-T2V-14B", rate="10/h", resolution=480, frames=17, accelerator=["h100-sxm5-80gb"])
    assert short.options[0].capacity_per_s.value > 4 * clip.options[0].capacity_per_s.value
    assert "10 samples an hour" in clip.sentence
    spoken = {"model": "openai/whisper-large-v3", "audio": 50, "engine": "faster-whisper", "accelerator": ["l4"]}
    one, five = (plan(**spoken, beams=beams).options[0] for beams in (1, 5))
    assert (
        one.capacity_per_s.value / one.batch >= 0.99 * five.capacity_per_s.value / five.batch or five.batch < one.batch
    )
    with pytest.raises(BadRequest, match="beams: '0'"):
        plan(**spoken, beams=0)
    seen = plan(model="Qwen/Qwen2.5-VL-7B-Instruct", rate="1/s", resolution=448, accelerator=["l40s"]).options[0]
    assert 7e9 * 2 < seen.memory.value < 40e9
    for model, fields, said in (
        ("Qwen/Qwen2.5-VL-7B-Instruct", {}, "give resolution"),
        ("timm/resnet50.a1_in1k", {"frames": 3}, "makes no clips"),
        ("timm/resnet50.a1_in1k", {"beams": 3}, "no speech decoder"),
    ):
        with pytest.raises(BadRequest, match=said):
            plan(model=model, rate="1/s", **fields)


def test_a_part_of_ones_own_needs_no_more_than_its_data_sheet(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[[accelerator]]\nid = "my-npu"\nsegment = "edge"\nmemory = "16 GiB"\nmemory_bw = "100 GB/s"\n'
        'peak.fp16 = "20 TFLOP/s"\nsource = "its data sheet"\nchecked = "2026-11-21"\n',
        encoding="utf-8",
    )
    asked = {"plan": "infer", **CAMERAS, "streams": 2, "accelerator": ["my-npu"]}
    assert answered("plan", "-", "--additions", file, given=asked)["options"][0]["accelerator"] == "my-npu"


def test_a_part_that_tensorrt_no_longer_knows_runs_pytorch() -> None:
    def engine(name: str, **fields: Any) -> str:
        return plan(model="timm/resnet50.a1_in1k", rate="500/s", accelerator=[name], **fields).options[0].engine

    found = {name: engine(name) for name in ("v100-sxm2-16gb", "t4", "jetson-agx-orin-32gb", "mi300x")}
    assert found == {
        "v100-sxm2-16gb": "pytorch",
        "t4": "tensorrt",
        "jetson-agx-orin-32gb": "tensorrt",
        "mi300x": "pytorch",
    }
    assert engine("v100-sxm2-16gb", engine="tensorrt") == "tensorrt"


def test_too_many_accelerators_are_short_by_those_that_are_missing() -> None:
    needed = plan(**CAMERAS, accelerator="T4").options[0].count
    few = plan(**CAMERAS, accelerator="T4", max_accelerators=needed - 1)
    (missed,) = [one for one in few.rejected if one.verdict.limit == "count"]
    assert (missed.verdict.short_by, missed.verdict.unit) == (1.0, "accelerators")
