"""Rules of thumb against the answers of Tonnage: memory and speed here, money in `rules_of_money`.

Each function asks the planners what a user would ask and puts the answer beside the rule. Nothing is judged from
memory: change a price, a kernel table or a formula, and the page changes with it.
"""

from __future__ import annotations

from datetime import date
from typing import Any, Final

from tools.calibration.rules import BF16, Judge, Judged, RuleOfThumb, requests_per_s, rule
from tools.calibration.rules_of_money import MONEY

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.case import InferCase, Traffic
from tonnage.domain.precision import Precision
from tonnage.physics.parameters import active_parameters, parameters
from tonnage.questions.fit.fit import fit
from tonnage.questions.fit.question import FitAnswer, fit_request
from tonnage.questions.predict.inference import predict_infer
from tonnage.units import GB

SEVEN: Final = "meta-llama/Llama-2-7b-hf"
SEVENTY: Final = "meta-llama/Llama-2-70b-hf"
CLOSE: Final = 0.1
NEAR: Final = 0.25


def rules_of_thumb(today: date) -> tuple[RuleOfThumb, ...]:
    """Every rule, in the order of the page; prices are aged from `today`."""
    return tuple(judge(today) for judge in (*RULES, *MONEY))


def _fit(model: str, **fields: Any) -> FitAnswer:
    return fit(fit_request({"model": model, **fields}), offline=True)


def _gb(value: float) -> str:
    return f"{value / GB:,.0f} GB"


def _judge(off: float) -> str:
    """A rule's verdict from how far it is off, as a share of the real number."""
    return "holds" if abs(off) <= CLOSE else "roughly" if abs(off) <= NEAR else "fails"


@rule("inference-bytes", "memory", "serving takes 2 bytes per parameter in FP16, 1 in INT8, half in INT4")
def _inference_bytes() -> Judged:
    found = []
    offs = []
    for model, precision in ((SEVEN, "bf16"), (SEVENTY, "fp8"), (SEVENTY, "int4")):
        answer = _fit(model, accelerator=["H200"], precision=precision, context="4096", concurrency="16")
        (said,) = (one for one in answer.rules if "byte" in one.name)
        found.append(f"{model.split('/')[1]} {precision}: rule {_gb(said.rule_bytes)}, needs {_gb(said.real_bytes)}")
        offs.append(said.off)
    worst = min(offs)
    computed = f"at 4,096 tokens x 16 requests: {'; '.join(found)}. It leaves out cache and buffers"
    return computed, _judge(worst)


@rule("training-bytes", "memory", "training with Adam takes 16 bytes per parameter, or 18")
def _training_bytes() -> Judged:
    answer = _fit(SEVEN, accelerator=["H200"], train=True, seq_len="4096", batch="4", recompute="none")
    sixteen, eighteen = answer.rules
    real = sixteen.real_bytes / answer.parameters
    computed = (
        f"Llama-2-7b at 4 x 4,096 tokens needs {real:.0f} bytes per parameter on one accelerator; "
        f"16 is {-sixteen.off:.0%} and 18 is {-eighteen.off:.0%} too low there: activations grow with tokens"
    )
    return computed, _judge(sixteen.off)


@rule("training-over-inference", "memory", "training needs 3 to 4 times the memory of inference")
def _training_over_inference() -> Judged:
    train = _fit(SEVEN, accelerator=["H200"], train=True, seq_len="2048", batch="1").rows[0].memory.value
    serve = _fit(SEVEN, accelerator=["H200"], context="2048", concurrency="1").rows[0].memory.value
    ratio = train / serve
    computed = f"Llama-2-7b, 1 x 2,048 tokens: {_gb(train)} against {_gb(serve)}, {ratio:.1f} times, unsharded AdamW"
    return computed, "holds" if 2.7 <= ratio <= 4.4 else "fails"


@rule("adapters", "memory", "LoRA needs the base model and 10 to 20 % more")
def _adapters() -> Judged:
    found = []
    worst = 0.0
    for tokens in ("512", "4096"):
        answer = _fit(SEVEN, accelerator=["H200"], finetune="lora", seq_len=tokens, batch="4")
        over = answer.rules[0].real_bytes / (answer.rules[0].rule_bytes / 1.1) - 1.0
        found.append(f"4 x {tokens} tokens: base and {over:.0%} more")
        worst = max(worst, over)
    computed = f"Llama-2-7b, {'; '.join(found)}: activations, which the rule leaves out, decide"
    return computed, "fails" if worst > 0.3 else "holds"


@rule("qlora-70b", "memory", "a 70B model is fine-tuned with QLoRA in about 48 GB")
def _qlora_70b() -> Judged:
    answer = _fit(SEVENTY, accelerator=["H100"], finetune="qlora", seq_len="512", batch="1", recompute="full")
    need = answer.rows[0].memory.value
    computed = f"{_gb(need)} at 1 x 512 tokens with full activation checkpointing"
    return computed, _judge(48.0 * GB / need - 1.0)


@rule("full-70b", "memory", "a full fine-tune of 65 to 70B takes over 1.1 TB")
def _full_70b() -> Judged:
    answer = _fit(SEVENTY, accelerator=["H200"], finetune="full", seq_len="2048", batch="1")
    need = answer.rows[0].memory.value * answer.rows[0].count
    computed = f"{need / 1e12:.2f} TB in all for Llama-2-70b with AdamW"
    return computed, "holds" if need > 1.05e12 else "fails"


@rule("int8-on-a100", "memory", "a 70B model in INT8 fits one 80 GB A100")
def _int8_on_a100() -> Judged:
    answer = _fit(SEVENTY, accelerator=["A100"], precision="int8", tp="1", context="2048", solve="concurrency")
    row = answer.rows[0]
    room = f"KV cache capacity: {row.kv_tokens:,.0f} tokens" if row.kv_tokens else (row.verdict.reason or "")
    fits = bool(row.kv_tokens and row.kv_tokens >= 2048)
    computed = f"Llama-2-70b under vLLM on one A100 80 GB: {room}"
    return computed, "roughly" if fits else "fails"


@rule("eight-times-seven", "memory", "an 8x7B mixture has the memory of 56B and the speed of 14B")
def _eight_times_seven() -> Judged:
    model = resolve("mistralai/Mixtral-8x7B-v0.1", offline=True)
    total, active = parameters(model).value / 1e9, active_parameters(model).value / 1e9
    computed = f"Mixtral-8x7B: {total:.1f}B in all and {active:.1f}B active, since attention is shared"
    return computed, _judge(56.0 / total - 1.0)


@rule("consumer-70b", "memory", "an RTX 5090 with 32 GB runs 70B models")
def _consumer_70b() -> Judged:
    four = _fit(SEVENTY, accelerator=["RTX 5090"], precision="gguf-q4_k_m", engine="llamacpp", context="2048")
    two = _fit(SEVENTY, accelerator=["RTX 5090"], precision="gguf-q2_k", engine="llamacpp", context="2048")
    fits = {"4 bits": four.rows[0], "2.6 bits": two.rows[0]}
    told = "; ".join(
        f"{name}: {_gb(row.memory.value)} of {_gb(row.limit_bytes)} on {row.count}" for name, row in fits.items()
    )
    computed = f"llama.cpp, 2,048 tokens; {told}"
    return computed, "depends" if two.fits and not four.fits else "holds" if four.fits else "fails"


FP8: Final = Precision(weights="fp8", activations="fp8", kv="fp8")
ALONE: Final = Traffic(concurrency=1)


@rule("h100-over-a100", "speed", "an H100 is three times an A100 (1.7 to 3.9 in inference)")
def _h100_over_a100() -> Judged:
    parts = {name: catalog.accelerator(name) for name in ("a100-sxm4-80gb", "h100-sxm5-80gb")}
    peak = parts["h100-sxm5-80gb"].peaks["bf16"] / parts["a100-sxm4-80gb"].peaks["bf16"]
    ratios = {
        name: requests_per_s("h100-sxm5-80gb", BF16, **fields) / requests_per_s("a100-sxm4-80gb", BF16, **fields)
        for name, fields in (
            ("long prompts", {"isl": 4096, "osl": 16}),
            ("chat at full load", {}),
            ("one user", {"traffic": ALONE}),
        )
    }
    told = ", ".join(f"{ratio:.1f}x for {name}" for name, ratio in ratios.items())
    computed = f"{peak:.2f}x in BF16 peak; serving 8B in BF16: {told}"
    return computed, "holds" if all(2.5 <= ratio <= 3.5 for ratio in ratios.values()) else "depends"


@rule("h200-over-h100", "speed", "an H200 is 1.4 to 1.9 times an H100")
def _h200_over_h100() -> Judged:
    one, full, prompts = (
        requests_per_s("h200-sxm-141gb", FP8, **fields) / requests_per_s("h100-sxm5-80gb", FP8, **fields)
        for fields in ({"traffic": ALONE}, {"isl": 1024, "osl": 4096}, {"isl": 8192, "osl": 8})
    )
    computed = (
        f"8B in FP8: {one:.2f}x for one user, {full:.2f}x full of long answers, {prompts:.2f}x for long prompts; "
        f"more where the larger memory holds more requests"
    )
    return computed, "depends"


@rule("b200-over-h100", "speed", "a B200 serves 15 times as fast as an H100")
def _b200_over_h100() -> Judged:
    ratio = requests_per_s("b200-sxm-180gb", FP8) / requests_per_s("h100-sxm5-80gb", FP8)
    computed = f"{ratio:.1f}x accelerator for accelerator, 8B in FP8 at full load; 15x compares racks and formats"
    return computed, "holds" if ratio > 12 else "fails"


@rule("two-for-one", "speed", "two mid-range cards do the work of one large one")
def _two_for_one() -> Judged:
    one, long = (
        2.0 * requests_per_s("l40s", BF16, **fields) / requests_per_s("h100-sxm5-80gb", BF16, **fields)
        for fields in ({}, {"isl": 4096, "osl": 16})
    )
    pair = min(one, long), max(one, long)
    computed = (
        f"2 x L40S, a replica each, over one H100 with 8B in BF16: {one:.2f}x for chat at full load, "
        f"{long:.2f}x for long prompts; a model that needs both cards pays for the link besides"
    )
    if pair[0] >= 1.0 - NEAR:
        return computed, "holds" if pair[0] >= 1.0 - CLOSE else "roughly"
    return computed, "depends" if pair[1] >= 1.0 - NEAR else "fails"


@rule("single-image", "speed", "a single image uses a tenth of an A100")
def _single_image() -> Judged:
    shares = {}
    for name, model in (("ResNet-50", "timm/resnet50.a1_in1k"), ("ViT-B/16", "google/vit-base-patch16-224")):
        rates = []
        for batch in (1, 128):
            case = InferCase(
                model=model,
                accelerator="a100-sxm4-80gb",
                batch=batch,
                precision="fp16",
                engine="tensorrt",
                resolution=224,
            )
            found = predict_infer(case).samples_per_s
            assert found is not None
            rates.append(found.value)
        shares[name] = rates[0] / rates[1]
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    computed = f"images one by one over those of batches of 128, 224 px in FP16: {told}"
    return computed, "roughly" if all(0.05 <= share <= 0.2 for share in shares.values()) else "fails"


RULES: Final[tuple[Judge, ...]] = (
    _inference_bytes,
    _training_bytes,
    _training_over_inference,
    _adapters,
    _qlora_70b,
    _full_70b,
    _int8_on_a100,
    _eight_times_seven,
    _consumer_70b,
    _h100_over_a100,
    _h200_over_h100,
    _b200_over_h100,
    _two_for_one,
    _single_image,
)
"""Memory and speed."""
