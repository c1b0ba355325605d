"""Checkpoints that others published: each is of a known model, in a known format, and its own row says which."""

import re

import pytest
from tests.shipped import tables

import tonnage

ROWS = tables("models")["checkpoints"]


def test_there_are_several_of_the_models_that_people_serve() -> None:
    assert len({row["model"] for row in ROWS}) > 30 and len({row["checkpoint"] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["checkpoint"]))
def test_a_checkpoint_is_read_in_its_own_format(row: dict[str, str]) -> None:
    assert tonnage.model(row["model"]).id == tonnage.model(row["checkpoint"]).id
    read = tonnage.model(row["checkpoint"])
    assert row["format"] in (read.quantization, read.experts_dtype)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["checkpoint"]))
def test_a_row_says_who_reads_it_and_where_that_stands(row: dict[str, str]) -> None:
    for engine in row["engines"].split(";"):
        assert re.fullmatch(r"(vllm|sglang|trtllm)(>=\d+\.\d+\.\d+)?", engine)
    assert len(row["source"]) > 20 and re.fullmatch(r"2026-\d\d-\d\d", row["checked"])
    assert re.fullmatch(r"(20\d\d-\d\d)?", row["released"])


def test_some_say_their_size_and_more_their_licence() -> None:
    sized = [row for row in ROWS if row["gb"]]
    assert len(sized) >= 16 and sum(bool(row["licence"]) for row in ROWS) > 50
    assert all(re.search(r"sizes? of (its|all its) files?: https://", row["source"]) for row in sized)


def test_two_makers_of_one_name_keep_their_own_formats() -> None:
    assert tonnage.model("nvidia/Qwen3-8B-FP8").quantization == "fp8"
    assert tonnage.model("Qwen/Qwen3-8B-FP8").quantization == "fp8_block"
