"""Every row of the model catalogue: its shape gives the published total, or the catalogue says why not."""

import csv
from pathlib import Path

import pytest
from tests.every_row import every_row

from tonnage.catalog import models as all_models
from tonnage.catalog.hub.config import ADAPTERS
from tonnage.catalog.hub.vision import blocks_parameters
from tonnage.catalog.models import FOLDER, model, model_ids
from tonnage.domain.model import Attention, LatentAttention, Model
from tonnage.domain.precision import number_format
from tonnage.physics.parameters import (
    active_parameters,
    embedding_parameters,
    head_parameters,
    layer_parameters,
    parameters,
)


def read(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


ROWS = read("models.csv")
EXCEPTIONS = {(row["id"], row["quantity"]): float(row["percent"]) for row in read("exceptions.csv")}
IDS = [row["id"] for row in ROWS]


def percent(derived: float, published: float) -> float:
    return 100 * (derived / published - 1)


@every_row(IDS)
def test_the_derived_total_is_the_published_one_to_one_percent(id: str) -> None:
    found = model(id)
    derived = parameters(found).value
    assert derived > 0
    if found.published_parameters is None:
        return
    off = percent(derived, found.published_parameters)
    said = EXCEPTIONS.get((id, "total"))
    if said is None:
        assert abs(off) <= 1.0
    else:
        assert abs(off) > 1.0, "no exception any more: drop its row"
        assert off == pytest.approx(said, abs=0.02)


@every_row(IDS)
def test_the_active_count_is_the_published_one(id: str) -> None:
    """Makers count the embedding, the head and the tower of a multimodal model, or do not: both are right."""
    found = model(id)
    published = found.published_active_parameters
    if published is None:
        return
    active = active_parameters(found).value
    most = active + sum(tower.parameters for tower in found.towers)
    least = active - embedding_parameters(found) - head_parameters(found)
    said = EXCEPTIONS.get((id, "active"))
    if said is None:
        assert 0.95 * least <= published <= 1.05 * most
    else:
        assert percent(active, published) == pytest.approx(said, abs=0.02)


def test_every_exception_is_about_a_row_and_says_why() -> None:
    rows = read("exceptions.csv")
    assert all(row["id"] in IDS and row["quantity"] in {"total", "active"} and len(row["why"]) > 20 for row in rows)


@every_row(ROWS, name=lambda row: row["id"])
def test_every_row_says_where_it_comes_from_and_when_it_was_checked(row: dict[str, str]) -> None:
    assert row["source"]
    assert row["licence"]
    assert row["checked"].startswith("20")
    assert row["model_type"] in {*ADAPTERS, "network", "noun", ""}
    assert bool(row["config"]) == (row["model_type"] in {"noun", ""})


@every_row(IDS)
def test_every_model_keeps_sane_shapes(id: str) -> None:
    found = model(id)
    number_format(found.native_dtype)
    if found.quantization is not None:
        number_format(found.quantization)
    if found.experts_dtype is not None:
        number_format(found.experts_dtype)
    for group in (*found.encoder, *found.layers):
        assert group.count >= 1
        assert layer_parameters(group, found.hidden_size) > 0
        if isinstance(group.mixer, Attention):
            assert group.mixer.num_attention_heads % group.mixer.num_key_value_heads == 0
            assert group.mixer.window is None or group.mixer.window > 1
        if isinstance(group.mixer, LatentAttention):
            assert group.mixer.qk_rope_head_dim < group.mixer.kv_lora_rank
    assert found.layers or found.network or found.extra_parameters or found.published_parameters


def test_the_catalogue_has_the_270_rows_and_more() -> None:
    assert len(all_models()) == len(set(model_ids())) >= 270


def test_every_config_file_belongs_to_a_row_and_back() -> None:
    named = {row["config"] for row in ROWS if row["config"]}
    assert named == {path.name for path in (FOLDER / "configs").iterdir()}


def test_every_known_checkpoint_leads_to_a_row_and_its_formats_exist() -> None:
    for row in read("formats.csv"):
        found = model(row["name"])
        assert (found.quantization or "", found.experts_dtype or "") == (row["weights"], row["experts"]), row["name"]
        for name in filter(None, (row["weights"], row["experts"], row["attention"])):
            number_format(name)
        assert row["source"]
        assert row["checked"].startswith("20")


def test_every_version_with_another_context_leads_to_a_row_of_another() -> None:
    for row in read("contexts.csv"):
        version = model(row["name"])
        assert version.max_context == int(row["max_position_embeddings"]) != model(version.id).max_context
        assert row["source"]
        assert row["checked"].startswith("20")


def test_every_alias_leads_to_a_row_and_is_no_id() -> None:
    for row in read("aliases.csv"):
        assert model(row["alias"]).id == row["id"], row["alias"]
        assert row["alias"] not in IDS
        assert row["why"]


def test_a_tower_counts_its_plain_layers_as_the_formulas_do() -> None:
    """Facts may not import formulas, so the count of a tower's layers is written twice."""
    towers = [(found.id, group) for found in map(model, IDS) for tower in found.towers for group in tower.layers]
    assert len(towers) > 20
    for id, group in towers:
        assert blocks_parameters(group) == group.count * layer_parameters(group, 0), id


@every_row(row["id"] for row in ROWS if row["kind"] in {"cnn", "vision"} and "network." in row["more"])
def test_vision_rows_carry_the_work_of_one_image(id: str) -> None:
    found: Model = model(id)
    assert 1e8 < found.network.flop < 1e13


def test_no_fact_file_holds_a_path_of_a_machine() -> None:
    assert not [path for path in Path(FOLDER).rglob("*.json") if b"/tm" + b"p/" in path.read_bytes()]
