"""Whatever a model's file holds, reading it gives a model or one sentence, quickly."""

import copy
import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.catalog.hub.files import CONFIG, LLAMA_GGUF, gguf_bytes, llama_gguf_tensors
from tests.every_row import every_row

from tonnage.catalog.hub.config import ADAPTERS, RENAMED, read_config
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.models import FOLDER
from tonnage.errors import BadFact, TonnageError
from tonnage.physics.parameters import active_parameters, parameters

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(
    sorted(
        {
            *CONFIG,
            "num_experts",
            "num_experts_per_tok",
            "num_local_experts",
            "layer_types",
            "sliding_window",
            "kv_lora_rank",
            "q_lora_rank",
            "qk_rope_head_dim",
            "qk_nope_head_dim",
            "v_head_dim",
            "text_config",
            "vision_config",
            "quantization_config",
            "hybrid_override_pattern",
            "block_configs",
            "moe_layer_freq",
            "linear_attn_config",
            "compress_ratios",
            "n_shared_experts",
            "moe_intermediate_size",
            "d_model",
            "n_heads",
            "first_k_dense_replace",
            "decoder_sparse_step",
            "mlp_only_layers",
            "expand",
            "state_size",
            "image_size",
            "patch_size",
            "attn_layer_period",
            "full_attention_interval",
            "architectures",
            "tie_word_embeddings",
        }
    )
)
TYPES = st.sampled_from(sorted({*ADAPTERS, *RENAMED}))
QUICK = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def assert_read_or_refused(fields: Any) -> None:
    try:
        found = read_config(fields)
    except BadFact as problem:
        assert 10 < len(str(problem)) < 600
        return
    total, active = parameters(found).value, active_parameters(found).value
    assert math.isfinite(total)
    assert active <= total + 1e-6 * abs(total)


@QUICK
@given(st.dictionaries(NAMES, JSON | st.integers(-2, 300), max_size=12), TYPES)
def test_any_fields_of_any_type(fields: dict[str, Any], kind: str) -> None:
    assert_read_or_refused({**fields, "model_type": kind})


@QUICK
@given(st.dictionaries(NAMES, JSON | st.integers(-2, 300), max_size=3), TYPES)
def test_a_good_file_with_a_few_wrong_fields(fields: dict[str, Any], kind: str) -> None:
    assert_read_or_refused({**CONFIG, "model_type": kind, **fields})


REAL = [json.loads(path.read_bytes()) for path in sorted((FOLDER / "configs").iterdir())]
REAL = [config for config in REAL if "model_type" in config or "architectures" in config]
ODD = st.sampled_from(
    [0, 1, -1, 3, 7, 10**6, 2**31, 10**30, 1.5, math.inf, True, "", "x", [], [1], ["x"], [[]], {}, None]
)


@QUICK
@given(st.data())
def test_a_real_file_with_one_odd_value(data: st.DataObject) -> None:
    fields = copy.deepcopy(data.draw(st.sampled_from(REAL)))
    at: Any = fields
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        inner = at[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            at[key] = data.draw(ODD)
            break
        at = inner
    assert_read_or_refused(fields)


@every_row(sorted({*ADAPTERS, *RENAMED}))
def test_each_adapter_says_which_field_is_missing(kind: str) -> None:
    with pytest.raises(BadFact, match=r"is missing|fields"):
        if kind in {"clip"}:  # every field of CLIP has a default
            raise BadFact("fields")
        read_config({"model_type": kind})


@QUICK
@given(st.binary(max_size=400))
def test_any_bytes_as_any_file(tmp_path: Path, content: bytes) -> None:
    for name in ("config.json", "x.safetensors", "x.gguf"):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(TonnageError) as problem:
            resolve(str(path))
        assert len(str(problem.value)) < 600


@QUICK
@given(st.data())
def test_a_gguf_file_with_flipped_bytes(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(gguf_bytes(LLAMA_GGUF, llama_gguf_tensors(1, vocabulary=8))[:3000])
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, 1500))] = data.draw(st.integers(0, 255))
    path = tmp_path / "x.gguf"
    path.write_bytes(whole)
    with pytest.raises(TonnageError):
        resolve(str(path))


@QUICK
@given(st.dictionaries(st.text(max_size=10), JSON, max_size=4))
def test_a_safetensors_header_of_anything(tmp_path: Path, header: dict[str, Any]) -> None:
    content = json.dumps(header).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(content)) + content + bytes(64))
    try:
        resolve(str(path))
    except TonnageError as problem:
        assert len(str(problem)) < 600


@QUICK
@given(JSON | st.dictionaries(NAMES, JSON, max_size=5))
def test_any_inline_value(value: Any) -> None:
    try:
        resolve(value, offline=True)
    except TonnageError as problem:
        assert len(str(problem)) < 700
