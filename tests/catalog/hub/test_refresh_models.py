"""Models asked for anew at a hub on this machine: kept, compared, and what fails keeps what was known."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.catalog.hub import test_online
from tests.catalog.hub.files import CONFIG
from tests.catalog.hub.test_online import FILES, Hub
from tests.command import told as command

from tonnage.catalog import model
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.refresh import refresh_models
from tonnage.errors import BadFact, BadRequest

hub = test_online.hub

QWEN: dict[str, Any] = {
    "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "intermediate_size": 12288,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 40960, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def published(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """Files of the hub's repositories, which a test may change."""
    files: dict[str, dict[str, Any]] = {name: dict(held) for name, held in FILES.items()}
    monkeypatch.setattr(test_online, "FILES", files)
    return files


@pytest.fixture
def commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Files of a repository change with a commit."""
    return lambda: monkeypatch.setattr(test_online, "COMMIT", test_online.COMMIT[::-1])


def test_an_unknown_model_is_known_offline_once_refreshed(published: dict[str, dict[str, Any]]) -> None:
    (one,) = refresh_models(["own/found"]).refreshed
    assert not one.known and not one.differs and not one.why
    assert resolve("own/found", offline=True).hidden_size == CONFIG["hidden_size"]


def test_a_changed_file_is_read_anew(published: dict[str, dict[str, Any]], commit: Callable[[], None]) -> None:
    refresh_models(["own/found"])
    published["own/found"] = {"config.json": {**CONFIG, "vocab_size": 12_345}}
    commit()
    refresh_models(["own/found"])
    assert resolve("own/found", offline=True).vocab_size == 12_345


def test_a_catalogued_model_is_compared_and_stays(
    published: dict[str, dict[str, Any]], commit: Callable[[], None]
) -> None:
    before = model("Qwen/Qwen3-8B")
    published["Qwen/Qwen3-8B"] = {"config.json": QWEN}
    (one,) = refresh_models(["Qwen/Qwen3-8B"]).refreshed
    assert one.known and not one.differs
    published["Qwen/Qwen3-8B"] = {"config.json": {**QWEN, "vocab_size": 200_000, "head_dim": 64}}
    commit()
    (one,) = refresh_models(["Qwen/Qwen3-8B"]).refreshed
    assert set(one.differs) == {"vocab_size", "layers"}
    assert model("Qwen/Qwen3-8B") == resolve("Qwen/Qwen3-8B") == before


def test_one_that_fails_keeps_what_is_known_and_the_others_go_on(
    published: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh_models(["own/plain"])
    published.pop("own/plain")
    gone, gated, broken, good = refresh_models(["own/plain", "own/gated", "own/notmodel", "own/found"]).refreshed
    assert "no such model" in gone.why and "401" in gated.why and broken.why and not good.why
    assert resolve("own/plain", offline=True).id == "own/plain"
    with pytest.raises(BadFact, match=r"no model was refreshed.*own/gated"):
        refresh_models(["own/gated"])
    monkeypatch.setenv("TONNAGE_OFFLINE", "1")
    with pytest.raises(BadRequest, match="unset it"):
        refresh_models(["own/found"])


def test_a_name_that_is_no_repository_asks_nobody(hub: type[Hub]) -> None:
    with pytest.raises(BadRequest, match="names no model on a hub"):
        refresh_models(["own/found", "../../etc/passwd"])
    assert not hub.seen


def test_the_command_says_what_it_did(published: dict[str, dict[str, Any]]) -> None:
    published["Qwen/Qwen3-8B"] = {"config.json": {**QWEN, "vocab_size": 200_000}}
    asked = ["catalog", "refresh", "--model", "own/found", "--model", "Qwen/Qwen3-8B", "--model", "own/gated"]
    told = command(*asked)
    assert told.exit_code == 0, told.output
    assert "2 models read from 127.0.0.1" in told.output and "differs in vocab_size" in told.output
    assert "own/gated: keeps what is known" in told.output
    found = json.loads(command(*asked, "--json").output)
    assert found["schema"] == "tonnage.refresh-models/1" and len(found["refreshed"]) == 3
    assert command(*asked, "--drop").exit_code == 2
