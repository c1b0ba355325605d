"""Measured rows of training and inference become cases."""

import pytest
from tests.validation.samples import point, sample, training

from tonnage import catalog
from tonnage.domain.case import InferCase, Links, ServeCase, TrainCase, TrainCaseLayout
from tonnage.domain.model import Attention, Mlp, Model, Moe
from tonnage.errors import BadFact
from tonnage_accuracy.cases import case_of, infer_case, kind_of
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


VISION = {
    "kind": "vision", "model_id": "timm/resnet50.a1_in1k", "image_px": 224, "gmacs": 4.11, "activations_m": 11.11,
    "isl_tokens": None, "osl_tokens": None, "phase": None, "engine": "pytorch", "engine_mode": "compile",
}  # fmt: skip


def test_a_vision_row_carries_its_own_work() -> None:
    case = infer_case(point(**VISION))
    assert (case.batch, case.resolution, case.engine_mode) == (16, 224, "compile")
    assert case.flop == pytest.approx(8.22e9)
    assert case.activation_values == pytest.approx(11.11e6)
    assert (case.count, case.saturated, case.rate_per_s) == (1, False, None)


def test_an_encoder_row_has_a_length_and_runs_at_its_activations_precision() -> None:
    case = infer_case(point(kind="embedding", phase="encode", isl_tokens=178, act_precision="int8"))
    assert (case.seq_len, case.precision) == (178, "int8")


def test_a_diffusion_row_has_steps() -> None:
    assert infer_case(point(kind="diffusion", diffusion_steps=20, image_px=1024)).steps == 20


@pytest.mark.parametrize(
    ("load", "count", "saturated"),
    [("saturated", 8, True), ("open_loop", 8, True), ("single_stream", 1, False), ("static_batch", 1, False)],
)
def test_a_whole_system_counts_every_accelerator_a_single_stream_one(load: str, count: int, saturated: bool) -> None:
    case = infer_case(point(**VISION, load=load, num_accel_total=8, request_rate_qps=100))
    assert (case.count, case.saturated) == (count, saturated)
    assert case.rate_per_s == (100 if load == "open_loop" else None)


def test_multi_stream_sends_eight_at_once() -> None:
    row = point(**VISION, load="single_stream", concurrency_or_batch=None, notes="scenario=multistream; x")
    assert infer_case(row).batch == 8


def test_a_network_outside_the_catalogue_is_what_its_row_says() -> None:
    case = infer_case(point(**{**VISION, "model_id": None}, model="YOLOv8s", params_b=0.0112))
    assert isinstance(case.model, Model)
    assert case.model.kind == "cnn-detect"
    assert case.model.network.flop == pytest.approx(8.22e9)
    assert case.model.published_parameters == pytest.approx(11.2e6)


def test_without_work_or_batch_nothing_is_guessed() -> None:
    with pytest.raises(BadFact, match="model not in the catalogue"):
        infer_case(point(**{**VISION, "model_id": None, "gmacs": None}))
    with pytest.raises(BadFact, match="not stated: concurrency_or_batch"):
        infer_case(point(**VISION, concurrency_or_batch=None))


def test_each_row_becomes_the_kind_of_case_it_is() -> None:
    rows = [point(), sample(), training(), point(**VISION), point(phase="encode")]
    assert [kind_of(row) for row in rows] == ["serve", "serve", "train", "infer", "infer"]
    assert [type(case_of(row)) for row in rows] == [ServeCase, ServeCase, TrainCase, InferCase, InferCase]


def test_a_row_without_a_catalogue_accelerator_is_no_case() -> None:
    with pytest.raises(BadFact, match="accelerator not in the catalogue"):
        case_of(point(accelerator_id=None))
