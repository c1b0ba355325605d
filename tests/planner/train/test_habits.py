"""Habits of training software, by name and year."""

import pytest

from tonnage import catalog
from tonnage.nouns.case import TrainCase, TrainCaseLayout
from tonnage.planner.train import habits

H100 = catalog.accelerator("h100-sxm5-80gb")
A100 = catalog.accelerator("a100-sxm4-80gb")


def case(**said: object) -> TrainCase:
    return TrainCase(model="x", accelerator="h100-sxm5-80gb", **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("framework", "family"),
    [
        ("Megatron-DeepSpeed", "deepspeed"),
        ("Megatron-Bridge", "megatron"),
        ("NeMo", "megatron"),
        ("llm-foundry/Composer", "fsdp"),
        ("torchtitan", "fsdp"),
        ("torchtune", "compiled"),
        ("MaxText", "jax"),
        ("HF Transformers + PEFT", "eager"),
        ("litgpt", "fsdp"),
    ],
)
def test_frameworks_belong_to_families(framework: str, family: str) -> None:
    assert habits.software_of(framework) == family


def test_without_a_framework_the_usual_one_is_taken() -> None:
    assert habits.software_of(None, count=64) == "megatron"
    assert habits.software_of(None, method="lora") == "eager"
    assert habits.software_of(None, layered=False, count=8) == "eager"
    assert habits.software_of("litgpt", method="lora") == "eager"


def test_flash_attention_came_in_2023_and_not_to_old_parts() -> None:
    assert habits.flash_attention(case(), H100)
    assert not habits.flash_attention(case(year=2021), A100)
    assert not habits.flash_attention(case(), catalog.accelerator("v100-sxm2-32gb"))
    assert habits.flash_attention(case(year=2021, flash_attention=True), A100)


def test_native_kernels_need_a_recent_part_and_year() -> None:
    assert habits.native_attention(case(), H100, software="megatron")
    assert not habits.native_attention(case(year=2023), H100, software="megatron")
    assert not habits.native_attention(case(), A100, software="megatron")


def test_recompute_follows_software_and_year() -> None:
    assert habits.recomputes(case(recompute="full"), "megatron", sharded=False) == ["full"]
    assert habits.recomputes(case(year=2020), "megatron", sharded=False) == ["full"]
    assert habits.recomputes(case(), "megatron", sharded=False)[0] == "none"
    assert habits.recomputes(case(framework="hf"), "eager", sharded=False) == ["none"]


def test_sharding_is_stated_or_habit() -> None:
    assert habits.shardings(case(layout=TrainCaseLayout(sharding="zero3")), "megatron", ranks=8) == ["zero3"]
    assert habits.shardings(case(), "megatron", ranks=8) == ["zero1"]
    assert habits.shardings(case(), "fsdp", ranks=8) == ["fsdp"]
    assert habits.shardings(case(), "eager", ranks=1) == ["none"]


def test_sequence_parallelism_is_megatrons_of_late() -> None:
    assert habits.sequence_parallel(case(), "megatron", tp=8)
    assert not habits.sequence_parallel(case(year=2021), "megatron", tp=8)
    assert habits.sequence_parallel(case(year=2022, recompute="selective"), "megatron", tp=8)
    assert not habits.sequence_parallel(case(), "deepspeed", tp=8)


def test_expert_degree_divides_experts_and_ranks() -> None:
    mixtral = catalog.model("mistralai/Mixtral-8x7B-v0.1")
    assert habits.expert_degree(mixtral, "megatron", ranks=64) == 8
    assert habits.expert_degree(mixtral, "megatron", ranks=6) == 2
    assert habits.expert_degree(catalog.model("meta-llama/Meta-Llama-3-8B"), "megatron", ranks=64) == 1


def test_targets_are_words_or_names() -> None:
    assert habits.lora_targets("query+value") == ("q_proj", "v_proj")
    assert habits.lora_targets("q_proj, v_proj") == ("q_proj", "v_proj")
    assert habits.lora_targets("all-linear") == ()
    assert habits.lora_targets(None) == ()
    assert habits.lora_targets(None, "megatron") == ("q_proj", "k_proj", "v_proj")


def test_only_peft_widens_a_four_bit_model() -> None:
    assert habits.wide_residual(case(method="qlora"))
    assert not habits.wide_residual(case(method="qlora", framework="torchtune"))
    assert not habits.wide_residual(case(method="lora"))


def test_peft_computes_its_adapters_in_32_bits() -> None:
    assert habits.wide_adapters(case(method="lora", framework="peft"), "eager")
    assert not habits.wide_adapters(case(method="lora", framework="peft", year=2023), "eager")
    assert not habits.wide_adapters(case(method="lora", framework="litgpt"), "eager")
    assert not habits.wide_adapters(case(method="full", framework="hf"), "eager")
    assert not habits.wide_adapters(case(method="lora", framework="nemo"), "megatron")


def test_fine_tuning_over_many_devices_recomputes_and_pre_training_need_not() -> None:
    assert habits.recomputes(case(method="full", framework="hf"), "eager", sharded=True) == ["full"]
    assert "none" in habits.recomputes(case(framework="pytorch"), "eager", sharded=True)


def test_schedules_are_stated_or_of_the_framework() -> None:
    assert habits.schedule(case(framework="hai-llm"), pp=16) == "dualpipe"
    assert habits.schedule(case(framework="hai-llm"), pp=1) == "1f1b"
    assert habits.schedule(case(layout=TrainCaseLayout(schedule="zb-h1")), pp=4) == "zb-h1"
    assert habits.schedule(case(framework="megatron"), pp=4) == "1f1b"


def test_networks_know_how_they_are_built() -> None:
    styles = {name: habits.network_style(catalog.model(name)) for name in
              ("timm/efficientnet_b4.ra2_in1k", "timm/resnet50.a1_in1k", "nvidia/nnunet-3d")}  # fmt: skip
    assert list(styles.values()) == ["separable", "plain", "volume"]


def test_latent_diffusion_encodes_its_images_in_the_step() -> None:
    assert habits.frozen_flop(catalog.model("stabilityai/stable-diffusion-2-base"), image_px=512) > 1e12
    assert habits.frozen_flop(catalog.model("timm/resnet50.a1_in1k"), image_px=224) == 0
