"""Training rows as cases: open degrees stay open, the row's own shape goes over the catalogue's."""

import pytest
from tests.validation.samples import training

from tonnage import catalog
from tonnage.domain.case import Links, TrainCaseLayout
from tonnage.domain.model import Attention, Mlp, Model, Moe
from tonnage.errors import BadFact
from tonnage_accuracy.train_cases import model_of, train_case

LLAMA = "meta-llama/Meta-Llama-3-8B"


def test_a_plain_row_says_everything_and_leaves_the_rest_open() -> None:
    case = train_case(training(internode_gbytes_per_s=50))
    assert (case.model, case.accelerator, case.count) == (LLAMA, "h100-sxm5-80gb", 8)
    assert case.layout == TrainCaseLayout()
    assert case.links == Links(intra="nvlink", inter_bytes_per_s=50e9)
    assert (case.precision, case.weight_precision, case.framework) == ("fp8", "bf16", "megatron")
    assert (case.micro_batch, case.global_batch, case.seq_len) == (1, 128, 8192)
    assert case.recompute is None
    assert case.flash_attention is None


def test_stated_degrees_and_words_arrive() -> None:
    case = train_case(
        training(
            tp=2,
            pp=4,
            vpp=5,
            cp=1,
            ep=8,
            dp=1,
            sharding="zero1",
            act_ckpt="selective",
            flash_attn="no",
            method="qlora",
            lora_rank=8,
            lora_targets="query+value",
            grads_kept=0,
            mem_kind="nvidia-smi",
        )
    )
    assert case.layout == TrainCaseLayout(tp=2, pp=4, vpp=5, cp=1, ep=8, dp=1, sharding="zero1")
    assert (case.recompute, case.flash_attention, case.grads_kept) == ("selective", False, False)
    assert (case.method, case.lora_rank, case.lora_targets, case.memory_kind) == ("qlora", 8, "query+value", "device")


@pytest.mark.parametrize(
    ("cells", "dp"),
    [
        ({"tp": 8, "pp": 16, "cp": 16, "dp": 4, "num_accel": 16384}, None),
        ({"tp": 8, "pp": 16, "cp": 1, "dp": 128, "num_accel": 16384}, 128),
        ({"dp": 16}, None),
        ({"dp": 4, "tp": None}, 4),
    ],
)
def test_a_data_parallel_degree_that_contradicts_the_count_is_left_open(
    cells: dict[str, object], dp: int | None
) -> None:
    assert train_case(training(**cells)).layout.dp == dp


@pytest.mark.parametrize(
    ("word", "kind"),
    [("allocated_max", "allocated"), ("active_max", "allocated"), ("reserved_max", "reserved"), (None, "reserved")],
)
def test_memory_words_are_kept_apart(word: str | None, kind: str) -> None:
    assert train_case(training(mem_kind=word)).memory_kind == kind


def test_methods_of_vision_and_full_fine_tuning() -> None:
    assert train_case(training(method="vision")).method == "pretrain"
    assert train_case(training(method="full-ft")).method == "full"


def test_a_shape_equal_to_the_catalogues_is_the_catalogues() -> None:
    assert model_of(training()) == LLAMA


def test_the_rows_shape_goes_over_the_catalogues() -> None:
    found = model_of(training(vocab=131072, layers=16, ffn=8192, arch_tied=1, arch_learned_pos=1))
    known = catalog.model(LLAMA)
    assert isinstance(found, Model)
    mlp = found.layers[0].feed_forward
    assert isinstance(mlp, Mlp)
    assert (found.vocab_size, found.layers[0].count, mlp.intermediate_size) == (131072, 16, 8192)
    assert (found.tie_word_embeddings, found.learned_positions) == (True, 8192)
    assert found.layers[0].mixer == known.layers[0].mixer


def test_only_the_vocabulary_is_restated_where_layers_differ() -> None:
    name = "deepseek-ai/DeepSeek-V3"
    known = catalog.model(name)
    assert model_of(training(model_id=name, vocab=known.vocab_size, layers=61, ffn=2048)) == name
    found = model_of(training(model_id=name, vocab=130000, layers=61, ffn=2048, experts=256))
    assert isinstance(found, Model)
    assert (found.vocab_size, found.layers) == (130000, known.layers)


def test_a_row_without_a_model_is_built_from_its_shape() -> None:
    found = model_of(
        training(model_id=None, model="Own", arch_gated=0, arch_learned_pos=1, kv_heads=None, head_dim=None)
    )
    assert isinstance(found, Model)
    layer = found.layers[0]
    assert layer.mixer == Attention(num_attention_heads=32, num_key_value_heads=32, head_dim=128)
    assert layer.feed_forward == Mlp(intermediate_size=14336, gated=False)
    assert (found.id, found.learned_positions, layer.norm_bias) == ("Own", 8192, True)


def test_experts_of_a_row_make_a_mixture() -> None:
    found = model_of(training(model_id=None, experts=64, top_k=6, ffn=1408))
    assert isinstance(found, Model)
    moe = found.layers[0].feed_forward
    assert moe == Moe(num_experts=64, num_experts_per_tok=6, moe_intermediate_size=1408, gated=True)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"model_id": None, "layers": None}, "model not in the catalogue"),
        ({"model_id": "nobody/nothing", "hidden": None}, "model not in the catalogue: nobody/nothing"),
        ({"num_accel": None}, "not stated: num_accel"),
        ({"micro_batch": "many"}, "bad cell micro_batch"),
    ],
)
def test_what_a_row_does_not_say_is_a_countable_reason(cells: dict[str, object], said: str) -> None:
    with pytest.raises(BadFact, match=said):
        train_case(training(**cells))


def test_an_unknown_model_with_a_shape_is_still_a_case() -> None:
    assert isinstance(model_of(training(model_id="nobody/nothing")), Model)


@pytest.mark.parametrize(
    ("notes", "moved"),
    [("FSDP + CPU offload", "all"), ("ZeRO-2, CPU offload of the optimizer", "optimizer"),
     ("activation offloading", "none"), ("", "none")],
)  # fmt: skip
def test_offload_is_written_in_prose(notes: str, moved: str) -> None:
    assert train_case(training(notes=notes)).offload == moved


def test_the_loop_that_a_compiler_is_compared_with_is_named_in_prose() -> None:
    assert train_case(training(engine="thunder", notes="ZeRO-3 eager; ms/iter")).framework == "pytorch"
    assert train_case(training(engine="thunder", notes="1-GPU Thunder+nvfuser")).framework == "thunder"
