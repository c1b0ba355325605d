"""Habits of training software, by name and year."""

import pytest

from tonnage import catalog
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.case import TrainCase, TrainCaseLayout
from tonnage.domain.training import SoftwareSpec
from tonnage.engines.registry import software_spec
from tonnage.questions.train import framework_defaults

MEGATRON, DEEPSPEED, FSDP, EAGER = map(software_spec, ("megatron", "deepspeed", "fsdp", "eager"))
H100 = catalog.accelerator("h100-sxm5-80gb")
A100 = catalog.accelerator("a100-sxm4-80gb")
LLAMA = catalog.model("meta-llama/Meta-Llama-3-8B")


def case(**said: object) -> TrainCase:
    return TrainCase(model="x", accelerator="h100-sxm5-80gb", **said)  # type: ignore[arg-type]


def test_flash_attention_came_in_2023_and_not_to_old_parts() -> None:
    assert framework_defaults.flash_attention(case(), H100)
    assert not framework_defaults.flash_attention(case(year=2021), A100)
    assert not framework_defaults.flash_attention(case(), catalog.accelerator("v100-sxm2-32gb"))
    assert framework_defaults.flash_attention(case(year=2021, flash_attention=True), A100)


def test_native_kernels_need_a_recent_part_and_year() -> None:
    assert framework_defaults.native_attention(case(), H100, software=MEGATRON)
    assert not framework_defaults.native_attention(case(year=2023), H100, software=MEGATRON)
    assert not framework_defaults.native_attention(case(), A100, software=MEGATRON)


def test_recompute_follows_software_and_year() -> None:
    assert framework_defaults.recomputes(case(recompute="full"), MEGATRON, sharded=False) == ["full"]
    assert framework_defaults.recomputes(case(year=2020), MEGATRON, sharded=False) == ["full"]
    assert framework_defaults.recomputes(case(), MEGATRON, sharded=False)[0] == "none"
    assert framework_defaults.recomputes(case(framework="hf"), EAGER, sharded=False) == ["none"]


def test_sharding_is_stated_or_habit() -> None:
    assert framework_defaults.shardings(case(layout=TrainCaseLayout(sharding="zero3")), MEGATRON, ranks=8) == ["zero3"]
    assert framework_defaults.shardings(case(), MEGATRON, ranks=8) == ["zero1"]
    assert framework_defaults.shardings(case(), FSDP, ranks=8) == ["fsdp"]
    assert framework_defaults.shardings(case(), EAGER, ranks=1) == ["none"]


def test_sequence_parallelism_is_megatrons_of_late() -> None:
    assert framework_defaults.sequence_parallel(case(), MEGATRON, tp=8)
    assert not framework_defaults.sequence_parallel(case(year=2021), MEGATRON, tp=8)
    assert framework_defaults.sequence_parallel(case(year=2022, recompute="selective"), MEGATRON, tp=8)
    assert not framework_defaults.sequence_parallel(case(), DEEPSPEED, tp=8)


def test_expert_degree_divides_experts_and_ranks() -> None:
    mixtral = catalog.model("mistralai/Mixtral-8x7B-v0.1")
    assert framework_defaults.expert_degree(mixtral, MEGATRON, ranks=64) == 8
    assert framework_defaults.expert_degree(mixtral, MEGATRON, ranks=6) == 2
    assert framework_defaults.expert_degree(catalog.model("meta-llama/Meta-Llama-3-8B"), MEGATRON, ranks=64) == 1


@pytest.mark.parametrize(
    ("said", "software", "targets"),
    [
        ({"lora_targets": "query+value"}, EAGER, ("q_proj", "v_proj")),
        ({"lora_targets": "q_proj, v_proj"}, EAGER, ("q_proj", "v_proj")),
        ({"lora_targets": "all-linear", "framework": "peft"}, EAGER, ()),
        ({}, EAGER, ()),
        ({}, MEGATRON, ("q_proj", "k_proj", "v_proj")),
        ({"framework": "peft"}, EAGER, ("q_proj", "v_proj")),
        ({"framework": "trl"}, EAGER, ()),
    ],
)
def test_targets_are_words_or_names_and_else_the_frameworks_own(
    said: dict[str, str], software: SoftwareSpec, targets: tuple[str, ...]
) -> None:
    assert framework_defaults.lora_targets(case(**said), LLAMA, software=software) == targets


def test_models_of_images_have_no_usual_targets() -> None:
    flux = catalog.model("black-forest-labs/FLUX.2-klein-base-4B")
    assert framework_defaults.lora_targets(case(framework="peft"), flux, software=EAGER) == ()


@pytest.mark.parametrize(
    ("said", "wide"),
    [
        ({"method": "qlora", "framework": "peft"}, True),
        ({"method": "qlora", "framework": "trl", "year": 2025}, True),
        ({"method": "qlora", "framework": "trl"}, False),
        ({"method": "qlora"}, False),
        ({"method": "qlora", "framework": "axolotl"}, False),
        ({"method": "qlora", "framework": "torchtune"}, False),
        ({"method": "qlora", "framework": "peft accelerated-peft"}, False),
        ({"method": "qlora", "framework": "peft", "residual_precision": "bf16"}, False),
        ({"method": "lora", "framework": "peft"}, False),
        ({"method": "full", "framework": "hf"}, True),  # 32-bit weights under autocast
        ({"method": "full", "framework": "hf", "weight_precision": "bf16"}, False),
    ],
)
def test_residual_streams_of_32_bits(said: dict[str, object], wide: bool) -> None:
    assert framework_defaults.wide_residual(case(**said), EAGER) is wide


def test_only_autocast_has_no_master_copy_of_16_bit_weights() -> None:
    said = case(method="full", weight_precision="bf16")
    assert [framework_defaults.master_weights(said, software) for software in (EAGER, MEGATRON)] == [False, True]


def test_adapters_keep_an_input_of_their_own() -> None:
    def kept(framework: str, **said: object) -> float:
        return framework_defaults.adapter_input(case(**{"method": "lora", "framework": framework} | said), EAGER)

    assert kept("peft") == 5
    assert kept("peft", year=2023) == kept("torchtune") == kept("hf", method="full") == 0
    assert kept("trl") == kept("litgpt") == 3
    assert framework_defaults.adapter_input(case(method="lora", framework="nemo"), MEGATRON) == 0


def test_fine_tuning_over_many_devices_recomputes_and_pre_training_need_not() -> None:
    assert framework_defaults.recomputes(case(method="full", framework="hf"), EAGER, sharded=True) == ["full"]
    assert "none" in framework_defaults.recomputes(case(framework="pytorch"), EAGER, sharded=True)


def test_schedules_are_stated_or_of_the_framework() -> None:
    assert framework_defaults.schedule(case(framework="hai-llm"), pp=16) == "dualpipe"
    assert framework_defaults.schedule(case(framework="hai-llm"), pp=1) == "1f1b"
    assert framework_defaults.schedule(case(layout=TrainCaseLayout(schedule="zb-h1")), pp=4) == "zb-h1"
    assert framework_defaults.schedule(case(framework="megatron"), pp=4) == "1f1b"


def test_networks_know_how_they_are_built() -> None:
    styles = {
        name: framework_defaults.network_style(catalog.model(name))
        for name in ("timm/efficientnet_b4.ra2_in1k", "timm/resnet50.a1_in1k", "nvidia/nnunet-3d")
    }
    assert list(styles.values()) == ["separable", "plain", "volume"]


def test_latent_diffusion_encodes_its_images_in_the_step() -> None:
    assert framework_defaults.frozen_flop(catalog.model("stabilityai/stable-diffusion-2-base"), image_px=512) > 1e12
    assert framework_defaults.frozen_flop(catalog.model("timm/resnet50.a1_in1k"), image_px=224) == 0


def test_who_chunks_the_loss_or_fuses_it_with_the_head() -> None:
    loss = framework_defaults.loss
    assert loss(case(framework="Unsloth"), EAGER) == loss(case(), MEGATRON) == "chunked"
    assert loss(case(year=2023), MEGATRON) == loss(case(framework="trl", year=2025), EAGER) == "whole"
    assert loss(case(framework="hf liger"), EAGER) == loss(case(framework="trl"), EAGER) == "fused"
    assert loss(case(framework="hf", loss="chunked"), EAGER) == "chunked"
    assert loss(case(framework="hf liger", objective="dpo"), EAGER) == "whole"
    assert framework_defaults.whole_logit(case(framework="hf")) == 12
    assert framework_defaults.whole_logit(case(framework="pytorch")) is None


def test_kernels_of_liger_keep_what_a_compiler_keeps() -> None:
    software = framework_defaults.software(case(framework="hf liger"), H100, layered=True)
    assert (software.name, software.keeps.gated, EAGER.keeps.gated) == ("eager", 3, 4)


def test_some_trainers_recompute_unasked() -> None:
    def modes(framework: str | None, **said: object) -> list[str]:
        return framework_defaults.recomputes(
            case(**{"method": "lora", "framework": framework} | said), EAGER, sharded=False
        )

    assert modes("llama-factory") == modes("trl") == modes(None) == ["full"]
    assert modes("trl", year=2024) == modes("hf") == modes("litgpt") == ["none"]


def test_states_are_paged_where_the_optimizer_is_called_so() -> None:
    assert framework_defaults.paged_states(case(optimizer="paged_adamw_8bit"))
    assert not framework_defaults.paged_states(case(framework="torchtune", optimizer="adamw-8bit"))


def test_litgpt_shards_and_yet_builds_the_whole_model() -> None:
    lora = case(method="lora", framework="lit-llama", count=4)
    assert framework_defaults.loads_whole(lora) and framework_defaults.shardings(lora, EAGER, ranks=4) == ["fsdp"]
    assert not framework_defaults.loads_whole(case(framework="lit-llama", count=4))


def test_meta_s_own_runs_had_older_kernels() -> None:
    assert not framework_defaults.native_attention(case(framework="meta-internal"), H100, software=MEGATRON)


def test_experts_are_fused_in_mxfp8_on_blackwell_since_june_2026() -> None:
    ultra = catalog.accelerator("gb300-nvl72")

    def fused(part: Accelerator = ultra, **said: object) -> bool:
        return framework_defaults.fused_experts(case(**({"precision": "mxfp8"} | said)), part, software=MEGATRON)

    assert fused() and fused(year=2026) and fused(framework="megatron 26.08")
    assert not fused(framework="megatron 26.04") and not fused(year=2025)
    assert not fused(precision="bf16") and not fused(part=H100)
    assert not fused(fused_experts=False) and fused(framework="megatron 26.04", fused_experts=True)
    assert not framework_defaults.fused_experts(case(precision="mxfp8"), ultra, software=FSDP)


def test_a_tpu_trains_with_jax_where_nobody_says_otherwise() -> None:
    assert framework_defaults.software(case(), catalog.accelerator("tpu-v5p"), layered=True).name == "jax"
    assert framework_defaults.software(case(count=8), H100, layered=True).name == "megatron"
    assert (
        framework_defaults.software(case(framework="megatron"), catalog.accelerator("tpu-v5p"), layered=True).name
        == "megatron"
    )


def test_what_a_denoiser_keeps_is_counted_layer_by_layer() -> None:
    sdxl = catalog.model("stabilityai/stable-diffusion-xl-base-1.0")
    whole = framework_defaults.kept_values(sdxl, image_px=1024)
    half = framework_defaults.kept_values(sdxl, image_px=512)
    assert 1e9 < whole < 3e9 and half < 0.3 * whole
    assert framework_defaults.kept_values(catalog.model("timm/resnet50.a1_in1k"), image_px=224) is None
