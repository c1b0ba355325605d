"""A config of an architecture nobody here has heard of: read by its fields, and honest about those it did not read."""

from typing import Any

import pytest

from tonnage import catalog
from tonnage.catalog.hub.config import read_config
from tonnage.catalog.hub.fields import read_object
from tonnage.catalog.models import FOLDER
from tonnage.domain.model import Model
from tonnage.errors import TonnageError
from tonnage.physics.cache import cache_bytes_per_sequence
from tonnage.physics.parameters import parameters

USUAL: dict[str, Any] = {
    "model_type": "next_week", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip


def cache(model: Model) -> float:
    return cache_bytes_per_sequence(model, "bf16", context=32768)


def hidden(config: Any) -> Any:
    """The same file under a name nobody knows."""
    if not isinstance(config, dict):
        return config
    kept = {key: hidden(value) for key, value in config.items() if key != "architectures"}
    return {**kept, "model_type": "next_week"} if "model_type" in kept else kept


def test_the_usual_fields_are_a_decoder() -> None:
    model = read_config(USUAL)
    assert parameters(model).value == pytest.approx(8.03e9, rel=0.001)
    assert model.assumed == ("model_type 'next_week' is not known: read as a Llama-like decoder from its fields",)


def test_windows_are_taken_where_the_file_says_which_layers() -> None:
    full = read_config(USUAL)
    kinds = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"] * 8
    assert cache(read_config({**USUAL, "sliding_window": 1024, "layer_types": kinds})) < 0.3 * cache(full)
    assert cache(read_config({**USUAL, "sliding_window": 1024, "sliding_window_pattern": 4})) < 0.3 * cache(full)
    assert cache(read_config({**USUAL, "sliding_window": 1024})) == cache(full)
    unused = {"sliding_window": 1024, "layer_types": kinds, "use_sliding_window": False}
    assert cache(read_config({**USUAL, **unused})) == cache(full)


def test_dense_layers_and_shared_experts_are_counted() -> None:
    sparse = {"num_experts": 64, "num_experts_per_tok": 6, "moe_intermediate_size": 1408}
    plain = parameters(read_config({**USUAL, **sparse})).value
    shared = parameters(read_config({**USUAL, **sparse, "n_shared_experts": 2})).value
    assert shared - plain == pytest.approx(32 * 2 * 3 * 4096 * 1408)
    dense_first = parameters(read_config({**USUAL, **sparse, "first_k_dense_replace": 1})).value
    assert plain - dense_first == pytest.approx(3 * 4096 * (64 * 1408 - 14336) + 64 * 4096)


@pytest.mark.parametrize("name", ["moonshotai/Kimi-K2.6", "mistralai/Mistral-Small-4-119B-2603"])
def test_latent_attention_is_known_by_its_fields(name: str) -> None:
    config = read_object(FOLDER / "configs" / (name.split("/")[1] + ".json"))
    known, found = catalog.model(name), read_config(hidden(config))
    assert cache(found) == cache(known)
    assert parameters(found).value == pytest.approx(parameters(known).value, rel=0.02)
    assert "DeepSeek-like" in found.assumed[0]


def test_what_was_not_read_is_named() -> None:
    model = read_config({**USUAL, "mamba_d_state": 128, "linear_num_value_heads": 32, "conv_kernel": 4, "hc_mult": 4})
    assert "conv_kernel, hc_mult, linear_num_value_heads and more were not read" in model.assumed[0]
    assert "the cache may be several times too large" in model.assumed[0]


def test_of_the_shipped_files_under_a_strange_name_most_keep_their_cache_and_few_have_less() -> None:
    """What a file of next week can expect; what is wrong says so by the fields it names, or is too large."""
    right = less = every = 0
    for path in sorted((FOLDER / "configs").glob("*.json")):
        try:
            known, found = read_config(read_object(path)), read_config(hidden(read_object(path)))
        except TonnageError:
            continue
        if not known.layers or known.assumed or cache(known) == 0:
            continue
        ratio = cache(found) / cache(known)
        every, right, less = every + 1, right + (0.99 <= ratio <= 1.01), less + (ratio < 0.9)
    assert every > 100
    assert right / every > 0.5
    assert less / every < 0.05
