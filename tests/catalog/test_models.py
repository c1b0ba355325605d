"""A model is found by any of its names, sizes are never guessed, and one look-up builds one model."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from tests.asked import Refused, told
from tests.every_row import every_row
from tests.patience import assert_quick

import tonnage
from tonnage import model
from tonnage.errors import TonnageError, UnknownName

LLAMA = "meta-llama/Meta-Llama-3.1-8B"
with (Path(__file__).parents[1] / "data" / "hub" / "names.csv").open(encoding="utf-8", newline="") as _file:
    TYPED = list(csv.DictReader(_file))


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize(
    ("name", "id", "quantization"),
    [
        ("Llama-3.1-8B", LLAMA, None),
        ("meta-llama/Llama-3.1-8B-Instruct", LLAMA, None),
        ("meta-llama/Meta-Llama-3.1-8B", LLAMA, None),
        ("llama3.1:8b", LLAMA, None),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", LLAMA, "fp8"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", LLAMA, "int8"),
        ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", LLAMA, "awq"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", LLAMA, "nf4"),
        ("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M", LLAMA, "gguf-q4_k_m"),
        ("llama3.1:8b-instruct-q8_0", LLAMA, "gguf-q8_0"),
        ("turboderp/Llama-3.1-8B-Instruct-exl2-4.65bpw", LLAMA, "exl2-4.65bpw"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "meta-llama/Meta-Llama-3.1-70B", "fp8"),
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16", "meta-llama/Llama-3.3-70B-Instruct", "int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-7B", "gptq"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-7B", "int8_weight"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B", None),
        ("nvidia/Qwen3-235B-A22B-NVFP4", "Qwen/Qwen3-235B-A22B", "nvfp4"),
        ("Qwen/Qwen3-32B-FP8-Static-PerTensor", "Qwen/Qwen3-32B", "fp8"),
        ("TheBloke/Mixtral-8x7B-Instruct-v0.1-AWQ", "mistralai/Mixtral-8x7B-v0.1", "awq"),
        ("mixtral:8x7b", "mistralai/Mixtral-8x7B-v0.1", None),
        ("gemma-2-9b-it", "google/gemma-2-9b", None),
        ("Llama-3.3-Nemotron-Super-49B-v1", "nvidia/Llama-3_3-Nemotron-Super-49B-v1", None),
        ("vit_base_patch16_224", "google/vit-base-patch16-224", None),
        ("vit-b/16", "google/vit-base-patch16-224", None),
    ],
)
def test_variants_of_a_name_mean_one_architecture(name: str, id: str, quantization: str | None) -> None:
    found = model(name)
    assert (found.id, found.quantization) == (id, quantization)


@pytest.mark.parametrize(
    "name",
    ["Llama-3.1-9B", "Qwen3-31B", "Mixtral-8x8B", "llama", "roberta", "whisper", "t5", "FP8", "GPT-9", "-it-"],
)
def test_a_size_that_does_not_exist_is_an_error_and_not_the_next_one(name: str) -> None:
    with pytest.raises(UnknownName):
        model(name)


@pytest.mark.parametrize(("name", "says"), [("", "is no model"), ("/", "no config.json")])
def test_what_is_no_name_is_an_error(name: str, says: str) -> None:
    with pytest.raises(TonnageError, match=says):
        model(name)


def test_a_dated_version_of_the_same_shape_has_its_own_context() -> None:
    first, later = model("Qwen/Qwen3-235B-A22B"), model("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8")
    assert (first.max_context, later.max_context) == (40_960, 262_144)
    assert later.id == first.id and later.layers == first.layers
    assert model("unsloth/Qwen3-30B-A3B-Thinking-2507-GGUF:Q4_K_M").max_context == 262_144


def test_the_error_suggests_what_was_probably_meant() -> None:
    with pytest.raises(UnknownName, match=r"did you mean .*Llama-3\.1-8B"):
        model("Llama-3.1-9B")


def test_a_plain_format_undoes_the_quantisation_of_the_checkpoint() -> None:
    assert model("deepseek-ai/DeepSeek-V3").quantization == "fp8_block"
    plain = model("unsloth/DeepSeek-V3-bf16")
    assert (plain.quantization, plain.native_dtype) == (None, "bf16")


def test_experts_kept_apart_are_told_from_a_quantised_checkpoint() -> None:
    oss = model("openai/gpt-oss-120b")
    assert (oss.quantization, oss.experts_dtype, oss.native_dtype) == (None, "mxfp4", "bf16")


@pytest.mark.parametrize(
    ("name", "id", "weights", "experts"),
    [
        ("nvidia/DeepSeek-V3.1-NVFP4", "deepseek-ai/DeepSeek-V3.1", None, "nvfp4"),
        ("nvidia/DeepSeek-R1-0528-NVFP4-v2", "deepseek-ai/DeepSeek-R1", None, "nvfp4"),
        ("nvidia/Kimi-K2.5-NVFP4", "moonshotai/Kimi-K2.5", None, "nvfp4"),
        ("nvidia/DeepSeek-V4-Pro-NVFP4", "deepseek-ai/DeepSeek-V4-Pro", "fp8_block", "nvfp4"),
        ("nvidia/MiniMax-M3-NVFP4", "MiniMaxAI/MiniMax-M3", "mxfp8", "nvfp4"),
        ("zai-org/GLM-5-FP8", "zai-org/GLM-5", "fp8_block", None),
        ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B", "fp8_block", None),
        ("RedHatAI/Qwen3-32B-FP8-dynamic", "Qwen/Qwen3-32B", "fp8", None),
    ],
)
def test_checkpoints_whose_formats_a_name_does_not_tell(
    name: str, id: str, weights: str | None, experts: str | None
) -> None:
    found = model(name)
    assert (found.id, found.quantization, found.experts_dtype) == (id, weights, experts)
    assert found.native_dtype == "bf16"


def test_a_rule_for_formats_is_an_assumption_and_a_known_checkpoint_is_none() -> None:
    assert any("routed experts only" in said for said in model("nvidia/DeepSeek-R1-NVFP4").assumed)
    assert model("nvidia/DeepSeek-V3.1-NVFP4").assumed == ()


@every_row(TYPED, name=lambda row: row["name"])
def test_names_people_type_mean_what_they_should(row: dict[str, str]) -> None:
    """Names of model pages, of quantisers and of tools, with the architecture and the formats they stand for."""
    found = model(row["name"])
    assert (found.id, found.quantization or "", found.experts_dtype or "") == (
        row["id"],
        row["quantization"],
        row["experts"],
    )


def test_the_list_of_typed_names_is_long_and_wide() -> None:
    assert len(TYPED) >= 280
    assert len({row["id"] for row in TYPED}) >= 150
    formats = {row["quantization"] for row in TYPED}
    assert len(formats) >= 12
    for name in formats - {""}:
        assert tonnage.fit(LLAMA, accelerator="B200", precision=name).rows, "the format is one that is known"


def test_the_explanation_names_every_part_of_the_name() -> None:
    (said,) = told("catalog", "models", "nvidia/Llama-3.1-70B-Instruct-FP8").notes
    assert "is meta-llama/Meta-Llama-3.1-70B" in said
    assert all(part in said for part in ("'nvidia' is the vendor", "'instruct' changes no shape", "weight format fp8"))


def test_the_mapping_holds_what_single_look_ups_give() -> None:
    rows = {row.id: row for row in told("catalog", "models").rows}
    assert rows[LLAMA].hidden_size == model(LLAMA).hidden_size and rows[LLAMA].layers == 32
    mixtral = model("mistralai/Mixtral-8x7B-v0.1").layers[0]
    assert (mixtral.feed_forward.num_experts, mixtral.count) == (8, rows["mistralai/Mixtral-8x7B-v0.1"].layers)


def test_one_look_up_builds_one_model_and_is_quick() -> None:
    code = (
        "import sys, time; import tonnage.catalog.models; m = sys.modules['tonnage.catalog.models'];"
        "t = time.process_time(); m.model('Llama-3.1-8B');"
        "print(time.process_time() - t, m._build.cache_info().currsize); assert 'numpy' not in sys.modules"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(printed[1]) == 1
    assert_quick(float(printed[0]), 0.01)


def test_a_person_adds_a_model_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        '[[model]]\nid = "own/tiny"\nmodel_type = "llama"\nhidden_size = 64\nnum_hidden_layers = 2\n'
        'num_attention_heads = 4\nintermediate_size = 128\nvocab_size = 100\nsource = "ours"\n',
        encoding="utf-8",
    )
    with pytest.raises(UnknownName):
        model("own/tiny")
    monkeypatch.setenv("TONNAGE_CATALOG", str(tmp_path))
    assert told("fit", "own/tiny", "-a", "H100").parameters == 95_040
    assert told("fit", "tiny-Instruct-FP8", "-a", "H100").rows[0].precision.weights == "fp8"


def test_a_model_of_ones_own_comes_before_a_shipped_one_that_is_spelt_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = told("fit", "Qwen3-8B", "-a", "H100").parameters
    (tmp_path / "own.toml").write_text(
        '[[model]]\nid = "qwen3-8b"\nmodel_type = "llama"\nhidden_size = 64\nnum_hidden_layers = 2\n'
        'num_attention_heads = 4\nintermediate_size = 128\nvocab_size = 100\nsource = "ours"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("TONNAGE_CATALOG", str(tmp_path))
    for name in ("qwen3-8b", "Qwen3-8B", "qwen3-8b-fp8"):
        assert told("fit", name, "-a", "H100").parameters == 95_040
    assert told("fit", "Qwen/Qwen3-8B", "-a", "H100").parameters == shipped > 8e9


def test_a_model_of_ones_own_may_not_take_a_known_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.toml"
    text = f'[[model]]\nid = "{LLAMA}"\nmodel_type = "llama"\nhidden_size = 64\nnum_hidden_layers = 2\n'
    file.write_text(text + "num_attention_heads = 4\nintermediate_size = 128\nvocab_size = 100\n", encoding="utf-8")
    monkeypatch.setenv("TONNAGE_CATALOG", str(tmp_path))
    with pytest.raises(Refused, match="is taken"):
        told("fit", "anything", "-a", "H100")
