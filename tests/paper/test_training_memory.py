"""Published training memory: states of Adam, adapters on one card, activations of the Korthikanti tables."""

import pytest
from msgspec.structs import replace
from tests.training_setups import train_setup

from tonnage import catalog
from tonnage.domain.answer import Quantity
from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model
from tonnage.domain.training import TrainSetup
from tonnage.physics.activations import layer_bytes_per_token
from tonnage.physics.training_memory import training_memory
from tonnage.units import GiB

A100 = catalog.accelerator("a100-sxm4-80gb")


def memory(name: str, setup: TrainSetup, kind: str = "allocated") -> Quantity:
    return training_memory(replace(setup, model=catalog.model(name), accelerator=A100), memory_kind=kind)


@pytest.mark.parametrize(("software", "low", "high"), [("fsdp", 104e9, 112e9), ("megatron", 117e9, 126e9)])
def test_adam_states_of_seven_billion_take_16_or_18_bytes_each(software: str, low: float, high: float) -> None:
    """ZeRO (arXiv 1910.02054): 16 bytes; Megatron with 32-bit gradient accumulation: 18. 6.74 B parameters."""
    setup = train_setup(software=software, seq_len=128, num_micro_batches=2, recompute="full")  # type: ignore[arg-type]
    found = memory("meta-llama/Llama-2-7b-hf", setup)
    states = sum(found.part(name) for name in ("weights", "gradients", "master weights", "optimizer"))
    assert low <= states <= high


def test_seventy_billion_in_full_needs_more_than_a_terabyte() -> None:
    """The guides' rule: 65 to 70 B parameters, full fine-tuning, above 1.1 TB."""
    setup = train_setup(method="full", software="fsdp", seq_len=2048, recompute="full")
    assert memory("meta-llama/Llama-2-70b-hf", setup).value > 1.1e12


def test_seventy_billion_adapts_on_one_48_gb_card() -> None:
    """QLoRA (arXiv 2305.14314): a 65 B model on one 48 GB card, sequences of about 512 tokens."""
    setup = train_setup(
        method="qlora",
        software="eager",
        master_weights=False,
        seq_len=512,
        lora_rank=64,
        recompute="full",
        optimizer="adamw-8bit",
        paged_states=True,
    )
    found = memory("meta-llama/Llama-2-70b-hf", setup, "device")
    assert 38e9 < found.value < 48 * GiB


@pytest.mark.parametrize(
    ("name", "batch", "setup", "measured", "within"),
    [
        # Lightning-AI/litgpt resource tables: bf16-true, LoRA rank 8 on query and value, longest sample of Alpaca.
        ("microsoft/phi-1_5", 1, {"seq_len": 1044}, 4.82e9, 0.08),
        ("microsoft/phi-1_5", 4, {"seq_len": 1044}, 10.68e9, 0.12),
        ("stabilityai/stablelm-base-alpha-3b", 4, {"seq_len": 1034}, 16.92e9, 0.08),
        ("meta-llama/Llama-2-7b-hf", 1, {"seq_len": 1304}, 21.30e9, 0.08),
        ("meta-llama/Llama-2-13b-hf", 1, {"seq_len": 1304}, 38.12e9, 0.08),
    ],
)
def test_adapters_in_16_bits(name: str, batch: int, setup: dict[str, object], measured: float, within: float) -> None:
    lora = train_setup(
        method="lora",
        software="eager",
        master_weights=False,
        lora_rank=8,
        lora_targets=("q_proj", "v_proj"),
        adapter_input=3.0,
        micro_batch=batch,
        num_micro_batches=128,
        **setup,  # type: ignore[arg-type]
    )
    assert memory(name, lora).value == pytest.approx(measured, rel=within)


KORTHIKANTI = {
    # arXiv 2205.05198, table 3: name -> heads, hidden, layers, tp, pp, vpp, micro-batch.
    "22B": (64, 6144, 48, 8, 1, 1, 4),
    "175B": (96, 12288, 96, 8, 8, 3, 1),
    "530B": (128, 20480, 105, 8, 35, 3, 1),
    "1T": (160, 25600, 128, 8, 64, 1, 1),
}


@pytest.mark.parametrize("name", sorted(KORTHIKANTI))
def test_selective_recompute_and_sequence_parallelism_cut_activations_five_times(name: str) -> None:
    """arXiv 2205.05198, figure 7 and section 6.1: together they need under 20 % of tensor parallelism alone."""
    heads, hidden, _, tp, _, _, _ = KORTHIKANTI[name]
    alone = 10 * hidden + (24 * hidden + 5 * heads * 2048) / tp
    both = 34 * hidden / tp
    assert 0.12 < both / alone < 0.23


def test_activations_of_gpt_3_match_the_paper() -> None:
    """arXiv 2205.05198, section 5: scores are 5 N S / h = 80 h for GPT-3 and 64 h for MT-NLG; the rest 34 h."""
    layer = LayerGroup(
        count=96,
        mixer=Attention(num_attention_heads=96, num_key_value_heads=96, head_dim=128),
        feed_forward=Mlp(intermediate_size=4 * 12288, gated=False),
        norm_bias=True,
    )
    setup = train_setup(seq_len=2048, flash_attention=False)
    whole = layer_bytes_per_token(layer, 12288, setup=setup)
    kept = layer_bytes_per_token(layer, 12288, setup=replace(setup, recompute="selective"))
    assert (whole - kept) / 12288 == pytest.approx(80)
    assert kept / 12288 == pytest.approx(32)  # 34 with two dropout masks


def test_bloom_on_48_nodes_shows_what_the_chronicle_shows() -> None:
    """bigscience chronicles, 176 B at TP 4, PP 12, micro-batch 2: 44 GB of 80 by nvidia-smi."""
    model = Model(
        id="bloom-like",
        family="BLOOM",
        kind="llm",
        hidden_size=14336,
        vocab_size=250880,
        tie_word_embeddings=True,
        layers=(
            LayerGroup(
                count=70,
                norm_bias=True,
                mixer=Attention(num_attention_heads=112, num_key_value_heads=112, head_dim=128),
                feed_forward=Mlp(intermediate_size=4 * 14336, gated=False),
            ),
        ),
    )
    setup = train_setup(
        software="deepspeed",
        micro_batch=2,
        num_micro_batches=128,
        seq_len=2048,
        recompute="full",
        flash_attention=False,
        layout=TrainLayout(tp=4, pp=12, dp=8, sharding="zero1"),
    )
    found = training_memory(replace(setup, model=model, accelerator=A100), memory_kind="device")
    assert found.value == pytest.approx(44e9, rel=0.15)


@pytest.mark.parametrize(
    ("tp", "pp", "dp", "batch", "layers", "measured"),
    [(8, 12, 4, 2, 72, 37e9), (8, 6, 8, 2, 72, 44e9), (8, 6, 8, 4, 72, 56e9), (8, 4, 12, 2, 72, 53e9),
     (8, 2, 24, 1, 70, 65e9), (4, 12, 8, 4, 72, 60e9), (2, 24, 8, 2, 72, 53e9)],
)  # fmt: skip
def test_layouts_of_one_model_under_zero(tp: int, pp: int, dp: int, batch: int, layers: int, measured: float) -> None:
    """BLOOM, one 181B model in many layouts (bigscience chronicles-prequel, "48 node contenders", "GBS variations")."""
    layer = LayerGroup(
        count=layers,
        mixer=Attention(num_attention_heads=64, num_key_value_heads=64, head_dim=224),
        feed_forward=Mlp(intermediate_size=4 * 14336, gated=False),
        norm_bias=True,
    )
    model = Model(
        id="181b",
        family="GPT",
        kind="llm",
        hidden_size=14336,
        vocab_size=250000,
        layers=(layer,),
        tie_word_embeddings=True,
        norm_bias=True,
    )
    setup = train_setup(
        software="deepspeed",
        layout=TrainLayout(tp=tp, pp=pp, dp=dp, sharding="zero1", sequence_parallel=False),
        micro_batch=batch,
        num_micro_batches=64,
        seq_len=2048,
        recompute="full",
        flash_attention=False,
    )
    found = training_memory(replace(setup, model=model, accelerator=A100), memory_kind="device")
    assert found.value == pytest.approx(measured, rel=0.09)


@pytest.mark.parametrize(
    ("name", "method", "measured"),
    [
        ("meta-llama/Llama-2-13b-hf", "lora", 46.2e9),
        ("meta-llama/Llama-2-13b-hf", "qlora", 40.8e9),
        ("microsoft/Phi-3-mini-4k-instruct", "lora", 18.2e9),
        ("meta-llama/Meta-Llama-3.1-8B", "lora", 38.7e9),
        ("meta-llama/Meta-Llama-3.1-8B", "qlora", 51.5e9),
        ("google/gemma-7b", "lora", 54.8e9),
    ],
)
def test_adapters_as_peft_builds_them(name: str, method: str, measured: float) -> None:
    """A public trainer's "GPU Test" page: 2 sequences of 8,192 tokens, every layer recomputed, reserved memory."""
    setup = train_setup(
        method=method,
        software="eager",
        master_weights=False,
        micro_batch=2,
        num_micro_batches=1,
        seq_len=8192,  # type: ignore[arg-type]
        recompute="full",
        adapter_input=5.0,
        wide_residual=method == "qlora",
    )
    assert memory(name, setup, "reserved").value == pytest.approx(measured, rel=0.08)
