"""Cases of vision-language models with images: from Python, from a file of cases, and what contradicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.command import told as command

import tonnage
from tonnage.errors import BadRequest

CASE: dict[str, Any] = {
    "kind": "serve", "model": "Qwen/Qwen2.5-VL-7B-Instruct", "accelerator": "h100-sxm5-80gb", "isl": 6000, "osl": 200,
    "traffic": {"rate_per_s": 2},
}  # fmt: skip
FOUR = {"per_request": 4, "size": "1024x1024"}


def predicted(**changes: Any) -> Any:
    found = tonnage.predict(CASE | changes)
    assert found.ttft_s is not None
    return found


def ttft(found: Any) -> float:
    return found.ttft_s.mean


def test_a_size_is_the_patches_and_tokens_that_the_model_makes_of_it() -> None:
    sized, stated = predicted(images=FOUR), predicted(images={"per_request": 4, "patches": 5476, "tokens": 1369})
    assert msgspec.structs.asdict(sized) == msgspec.structs.asdict(stated)


def test_images_are_encoded_before_the_first_token_and_kept_ones_are_not() -> None:
    text, seen = predicted(), predicted(images=FOUR)
    kept = predicted(images=FOUR | {"hits": 0.9})
    assert ttft(text) < ttft(kept) < ttft(seen)
    more = predicted(images=FOUR, engine_options={"mm_encoder_tp_mode": "data"}, layout={"tp": 2})
    assert ttft(more) < ttft(predicted(images=FOUR, layout={"tp": 2}))


def test_a_file_of_cases_and_python_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text(json.dumps(CASE | {"images": FOUR}), encoding="utf-8")
    told = command("predict", str(tmp_path / "cases.jsonl"))
    assert told.exit_code == 0, told.output
    assert json.loads(told.output)["ttft_s"]["mean"] == ttft(predicted(images=FOUR))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"images": {"per_request": 4}}, "how large are they"),
        ({"images": {"per_request": 4, "size": "big"}}, "is no size in pixels"),
        ({"images": FOUR | {"tokens": 5}}, "images.size and patches or tokens contradict"),
        ({"images": FOUR, "isl": 1000}, "less than the 5,476 tokens of its images"),
        ({"images": FOUR, "model": "llama-3.1-8b"}, "no vision encoder"),
    ],
)
def test_what_images_of_a_case_cannot_be(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        predicted(**changes)
