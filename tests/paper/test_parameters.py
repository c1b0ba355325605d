"""
Published parameter counts, to the last digit, from shapes alone.

`COUNTED` are totals from a checked source: the reference implementations, built without weights and counted.
`TRANSCRIBED` are totals as the makers' pages give them, written down by hand and not re-read since.
"""

import pytest
from tests.every_row import every_row

import tonnage


def count(model: str) -> float:
    """Parameters that the shape gives, as `tonnage fit` states them."""
    return tonnage.fit(model, accelerator="B300").parameters


# Counted on the meta device from the reference implementations (transformers 5.23, timm 1.0.31) with these configs.
# DeepSeek-V3's reference implementation keeps 58 x 256 correction biases as buffers; the checkpoint stores them.
COUNTED = [
    ("meta-llama/Meta-Llama-3.1-8B", 8_030_261_248),
    ("Qwen/Qwen3-8B", 8_190_735_360),
    ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
    ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
    ("deepseek-ai/DeepSeek-V3", 671_026_419_200),
    ("openai/whisper-large-v3", 1_543_490_560),
    ("google/vit-base-patch16-224", 86_567_656),
]

# Totals that the makers' pages state, in our own transcription, not re-read: they agree with the shape to the last
# digit, which a slip of the pen would not, but they are no independent check of a shape transcribed with them.
TRANSCRIBED = [
    ("deepseek-ai/DeepSeek-V2-Lite", 15_706_484_224),
    ("microsoft/Phi-3.5-MoE-instruct", 41_873_153_344),
    ("allenai/OLMoE-1B-7B-0924", 6_919_161_856),
    ("Qwen/Qwen1.5-MoE-A2.7B", 14_315_784_192),
    ("databricks/dbrx-base", 131_596_523_520),
    ("CohereForAI/c4ai-command-r-v01", 34_980_831_232),
    ("CohereForAI/c4ai-command-r-plus", 103_810_674_688),
    ("google/gemma-2-2b", 2_614_341_888),
    ("google/gemma-2-9b", 9_241_705_984),
    ("google/gemma-2-27b", 27_227_128_320),
    ("google/gemma-3-1b-it", 999_885_952),
    ("google/gemma-7b", 8_537_680_896),
    ("google/gemma-2b", 2_506_172_416),
    ("tiiuae/falcon-7b", 6_921_720_704),
    ("bigscience/bloom", 176_247_271_424),
    ("bigscience/bloom-7b1", 7_069_016_064),
    ("facebook/opt-1.3b", 1_315_758_080),
    ("openai-community/gpt2", 124_439_808),
    ("openai-community/gpt2-medium", 354_823_168),
    ("openai-community/gpt2-large", 774_030_080),
    ("openai-community/gpt2-xl", 1_557_611_200),
    ("EleutherAI/gpt-j-6b", 6_050_882_784),
    ("EleutherAI/gpt-neox-20b", 20_554_567_680),
    ("mistralai/Mistral-7B-v0.1", 7_241_732_096),
    ("mistralai/Mistral-7B-v0.3", 7_248_023_552),
    ("mistralai/Mistral-Nemo-Base-2407", 12_247_782_400),
    ("mistralai/Mixtral-8x22B-v0.1", 140_620_634_112),
    ("meta-llama/Llama-2-7b-hf", 6_738_415_616),
    ("meta-llama/Llama-2-13b-hf", 13_015_864_320),
    ("meta-llama/Llama-2-70b-hf", 68_976_648_192),
    ("meta-llama/Llama-3.2-1B", 1_235_814_400),
    ("meta-llama/Llama-3.2-3B", 3_212_749_824),
    ("meta-llama/Meta-Llama-3.1-405B", 405_853_388_800),
    ("meta-llama/Meta-Llama-3.1-70B", 70_553_706_496),
    ("Qwen/Qwen2.5-0.5B", 494_032_768),
    ("Qwen/Qwen2.5-1.5B", 1_543_714_304),
    ("Qwen/Qwen2.5-3B", 3_085_938_688),
    ("Qwen/Qwen2.5-7B", 7_615_616_512),
    ("Qwen/Qwen2.5-14B", 14_770_033_664),
    ("Qwen/Qwen2.5-32B", 32_763_876_352),
    ("Qwen/Qwen2.5-72B", 72_706_203_648),
    ("Qwen/Qwen3-0.6B", 596_049_920),
    ("Qwen/Qwen3-1.7B", 1_720_574_976),
    ("Qwen/Qwen3-4B-Base", 4_022_468_096),
    ("Qwen/Qwen3-14B-Base", 14_768_307_200),
    ("Qwen/Qwen3-32B", 32_762_123_264),
    ("Qwen/Qwen3-235B-A22B", 235_093_634_560),
    ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 480_154_875_392),
    ("microsoft/phi-2", 2_779_683_840),
    ("microsoft/phi-1_5", 1_418_270_720),
    ("microsoft/Phi-3-mini-4k-instruct", 3_821_079_552),
    ("microsoft/Phi-3-medium-4k-instruct", 13_960_238_080),
    ("microsoft/phi-4", 14_659_507_200),
    ("microsoft/Phi-4-mini-instruct", 3_836_021_760),
    ("bigcode/starcoder", 15_517_456_384),
    ("bigcode/starcoder2-15b", 15_957_889_024),
    ("01-ai/Yi-6B", 6_061_035_520),
    ("01-ai/Yi-34B", 34_388_917_248),
    ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1_100_048_384),
    ("HuggingFaceTB/SmolLM2-135M", 134_515_008),
    ("HuggingFaceTB/SmolLM2-1.7B", 1_711_376_384),
    ("mosaicml/mpt-7b", 6_649_286_656),
    ("google-bert/bert-base-uncased", 109_482_240),
    ("google-bert/bert-large-uncased", 335_141_888),
    ("FacebookAI/roberta-base", 124_645_632),
    ("FacebookAI/roberta-large", 355_359_744),
    ("FacebookAI/xlm-roberta-large", 559_890_432),
    ("BAAI/bge-m3", 567_754_752),
    ("sentence-transformers/all-MiniLM-L6-v2", 22_713_216),
    ("nomic-ai/nomic-embed-text-v1.5", 136_731_648),
    ("openai/whisper-base", 72_593_920),
    ("openai/whisper-small", 241_734_912),
    ("openai/whisper-medium", 763_857_920),
    ("openai/whisper-large-v2", 1_543_304_960),
    ("openai/whisper-large-v3-turbo", 808_878_080),
    ("google-t5/t5-base", 222_903_552),
    ("google-t5/t5-large", 737_668_096),
    ("google/flan-t5-xl", 2_849_757_184),
    ("google/flan-t5-xxl", 11_135_332_352),
    ("google/vit-large-patch16-224", 304_326_632),
    ("google/vit-base-patch16-384", 86_859_496),
    ("openai/clip-vit-large-patch14", 427_616_513),
    ("state-spaces/mamba-2.8b", 2_768_345_600),
    ("state-spaces/mamba2-2.7b", 2_702_599_680),
    ("openai/gpt-oss-120b", 116_829_156_672),
    ("openai/gpt-oss-20b", 20_914_757_184),
    ("ai21labs/Jamba-v0.1", 51_570_323_328),
    ("moonshotai/Kimi-K2-Instruct", 1_026_408_232_448),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 108_641_793_536),
    ("ibm-granite/granite-3.1-8b-base", 8_170_848_256),
    ("ibm-granite/granite-3.1-2b-base", 2_533_531_648),
    ("BAAI/bge-large-en-v1.5", 335_141_888),
    ("codellama/CodeLlama-34b-hf", 33_743_970_304),
    ("deepseek-ai/deepseek-coder-33b-base", 33_342_991_360),
    ("THUDM/glm-4-9b", 9_399_951_360),
    ("mistralai/Mistral-Small-24B-Base-2501", 23_572_403_200),
    ("mistralai/Mistral-Large-Instruct-2407", 122_610_069_504),
    ("allenai/OLMo-2-0325-32B", 32_234_279_936),
    ("allenai/OLMo-7B-hf", 6_888_095_744),
    ("deepseek-ai/DeepSeek-V2", 235_741_434_880),
    ("Qwen/Qwen2.5-VL-7B-Instruct", 8_292_166_656),
    ("Qwen/Qwen2.5-VL-32B-Instruct", 33_452_718_336),
    ("Qwen/Qwen2.5-VL-72B-Instruct", 73_410_777_344),
    ("facebook/bart-large", 406_291_456),
    ("tiiuae/falcon-40b", 41_303_293_952),
    ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 49_867_145_216),
    ("Qwen/QwQ-32B", 32_763_876_352),
    ("google/gemma-4-31B-it", 31_273_086_512),
    ("google/gemma-3-4b-it", 4_300_079_472),
    ("google/gemma-3-12b-it", 12_187_325_040),
    ("google/gemma-3-27b-it", 27_432_406_640),
    ("Qwen/Qwen3-VL-8B-Instruct", 8_767_123_696),
    ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 401_583_781_376),
    ("facebook/sam-vit-huge", 641_090_608),
    ("microsoft/deberta-v3-large", 434_012_160),
]


@every_row(COUNTED)
def test_the_shape_gives_the_reference_implementation_s_count_exactly(row: tuple[str, int]) -> None:
    """Checked source: counted from the reference implementation."""
    id, counted = row
    assert count(id) == counted


@every_row(TRANSCRIBED)
def test_the_shape_gives_the_published_count_exactly(row: tuple[str, int]) -> None:
    """Transcriptions of published totals, not re-read."""
    id, published = row
    assert count(id) == published


@pytest.mark.parametrize(
    ("id", "total", "active"),
    [
        # Transcribed from model cards; active with the embedding, except gpt-oss (OpenAI counts without it).
        ("mistralai/Mixtral-8x7B-v0.1", 46.70e9, 12.9e9),
        ("deepseek-ai/DeepSeek-V3", 671.03e9, 37.6e9),
        ("Qwen/Qwen3-30B-A3B", 30.53e9, 3.35e9),
        ("Qwen/Qwen3-235B-A22B", 235.09e9, 22.2e9),
        ("openai/gpt-oss-120b", 116.83e9, 5.13e9 + 201_088 * 2880),
        ("openai/gpt-oss-20b", 20.91e9, 3.61e9 + 201_088 * 2880),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 108.64e9, 17.2e9),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 401.58e9, 17.2e9),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 31.58e9, 3.58e9),
    ],
)
def test_total_and_active_counts_of_mixtures(id: str, total: float, active: float) -> None:
    found = tonnage.fit(id, accelerator="B300")
    assert found.parameters == pytest.approx(total, rel=2e-3)
    assert found.active_parameters == pytest.approx(active, rel=5e-3)


def test_llama_3_70b_in_half_precision_is_141_gb() -> None:
    assert 2 * count("Llama-3.1-70B") / 1e9 == pytest.approx(141.1, abs=0.05)


def test_flux_transformer_alone_has_the_published_count() -> None:
    flux = tonnage.model("black-forest-labs/FLUX.1-dev")
    alone = count(flux.id) - sum(tower.parameters for tower in flux.towers)
    assert alone == 11_901_408_320  # counted from diffusers 0.42.1 on the meta device
