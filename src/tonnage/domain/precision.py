"""Number formats: how many bytes a value takes and which arithmetic multiplies it.

A format has a storage size (with its scales: 4-bit groups of 128 store 4.25 bits) and a compute
dtype: weight-only formats (AWQ, GPTQ, GGUF) are multiplied at the activation's precision; FP8 and
INT8 weights with quantised activations at their own. One row per format; a new one is one row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tonnage.errors import BadRequest, UnknownName
from tonnage.record import Record, SparseRecord


class Format(Record, kw_only=True):
    """One number format. `bits` includes scales and zero points; `compute` names a peak of the accelerator."""

    name: str
    bits: float
    bytes: float
    """Of a value, scales included. [bytes]"""
    compute: str
    """Peak used when activations are in this format too: fp32, tf32, fp16, bf16, fp8, int8, fp4."""
    weight_only: bool = False
    """Activations stay at 16 bits and the product runs at the 16-bit peak."""
    source: str = ""


def _table(*rows: tuple[str, float, str, bool, str]) -> dict[str, Format]:
    return {
        name: Format(name=name, bits=bits, bytes=bits / 8, compute=compute, weight_only=weight_only, source=source)
        for name, bits, compute, weight_only, source in rows
    }


FORMATS: Final[dict[str, Format]] = _table(
    ("fp64", 64, "fp64", False, "IEEE 754"),
    ("fp32", 32, "fp32", False, "IEEE 754"),
    ("tf32", 32, "tf32", False, "stored as fp32, multiplied with a 10-bit mantissa"),
    ("fp16", 16, "fp16", False, "IEEE 754"),
    ("bf16", 16, "bf16", False, "8-bit exponent, 7-bit mantissa"),
    ("fp8", 8, "fp8", False, "e4m3, per-tensor or per-channel scales"),
    ("fp8_block", 8 + 32 / (128 * 128), "fp8", False, "e4m3, one fp32 scale per 128 x 128 block"),
    ("mxfp8", 8 + 8 / 32, "fp8", False, "OCP MX: 8-bit scale per 32 values"),
    ("int8", 8, "int8", False, "W8A8, per-channel scales"),
    ("int8_weight", 8, "bf16", True, "W8A16"),
    ("int4", 4 + 16 / 128 + 4 / 128, "bf16", True, "W4A16, group 128: 16-bit scale and 4-bit zero"),
    ("int4_g32", 4 + 16 / 32, "bf16", True, "W4A16, symmetric groups of 32: a 16-bit scale each (Kimi K2.5)"),
    ("awq", 4 + 16 / 128 + 4 / 128, "bf16", True, "W4A16, group 128"),
    ("gptq", 4 + 16 / 128 + 4 / 128, "bf16", True, "W4A16, group 128"),
    ("gptq_int8", 8 + 16 / 128 + 8 / 128, "bf16", True, "W8A16, group 128: 16-bit scale and 8-bit zero"),
    ("nf4", 4 + 0.127, "bf16", True, "QLoRA: NF4 blocks of 64, doubly quantised scales (arXiv 2305.14314)"),
    ("nvfp4", 4 + 8 / 16, "fp4", False, "e2m1, 8-bit scale per 16 values"),
    ("mxfp4", 4 + 8 / 32, "fp4", False, "OCP MX: e2m1, 8-bit scale per 32 values"),
    ("int2", 2 + 32 / 64, "bf16", True, "W2A16, group 64"),
    ("mlx-8bit", 8.5, "fp16", True, "MLX: groups of 64, 16-bit scale and bias"),
    ("mlx-6bit", 6.5, "fp16", True, "MLX: groups of 64, 16-bit scale and bias"),
    ("mlx-5bit", 5.5, "fp16", True, "MLX: groups of 64, 16-bit scale and bias"),
    ("mlx-4bit", 4.5, "fp16", True, "MLX: groups of 64, 16-bit scale and bias"),
    ("gguf-f32", 32, "fp32", True, "GGUF"),
    ("gguf-f16", 16, "fp16", True, "GGUF"),
    ("gguf-bf16", 16, "bf16", True, "GGUF"),
    ("gguf-q8_0", 8.5, "fp16", True, "GGUF: 32 values, 16-bit scale"),
    ("gguf-q6_k", 6.5625, "fp16", True, "GGUF: 210 bytes per 256 values"),
    ("gguf-q5_k_m", 5.69, "fp16", True, "GGUF mixture, Llama-3 files"),
    ("gguf-q5_k_s", 5.54, "fp16", True, "GGUF mixture, Llama-3 files"),
    ("gguf-q5_0", 5.5, "fp16", True, "GGUF: 22 bytes per 32 values"),
    ("gguf-q4_k_m", 4.85, "fp16", True, "GGUF mixture, Llama-3 files"),
    ("gguf-q4_k_s", 4.58, "fp16", True, "GGUF mixture, Llama-3 files"),
    ("gguf-q4_0", 4.5, "fp16", True, "GGUF: 18 bytes per 32 values"),
    ("gguf-q4_1", 5.0, "fp16", True, "GGUF: 20 bytes per 32 values"),
    ("gguf-iq4_xs", 4.25, "fp16", True, "GGUF: 136 bytes per 256 values"),
    ("gguf-q3_k_m", 3.91, "fp16", True, "GGUF mixture, Llama-3 files"),
    ("gguf-q3_k_s", 3.5, "fp16", True, "GGUF mixture, Llama-3 files"),
    ("gguf-q2_k", 2.96, "fp16", True, "GGUF mixture, Llama-3 files"),
)
"""Every known number format by name."""

_ALIASES: Final = {
    "float32": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float64": "fp64", "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8", "float8": "fp8", "w8a8": "int8", "w8a16": "int8_weight", "w4a16": "int4", "fp4": "nvfp4",
    "4bit": "int4", "8bit": "int8", "int4_awq": "awq", "int4_gptq": "gptq", "q4_k_m": "gguf-q4_k_m",
    "q8_0": "gguf-q8_0", "q5_k_m": "gguf-q5_k_m", "q6_k": "gguf-q6_k", "q4_0": "gguf-q4_0", "q3_k_m": "gguf-q3_k_m",
    "q2_k": "gguf-q2_k", "f16": "fp16", "f32": "fp32",
}  # fmt: skip


@lru_cache(maxsize=512)
def number_format(name: str) -> Format:
    """
    The format of that name; "exl2-4.65bpw" and its like give the bits in the name.

    Raises
    ------
    UnknownName
        No such format.
    BadRequest
        The bits in the name are not from 1.5 to 16.
    """
    key = name.strip().lower().replace(" ", "_")
    key = _ALIASES.get(key, key)
    if key in FORMATS:
        return FORMATS[key]
    if key.startswith(("exl2-", "exl3-")) and key.endswith("bpw"):
        bits = _bits_per_weight(key)
        return Format(name=key, bits=bits, bytes=bits / 8, compute="fp16", weight_only=True, source="bits in the name")
    raise UnknownName("precision", name, known=FORMATS)


def _bits_per_weight(key: str) -> float:
    try:
        bits = float(key[5:-3])
    except ValueError:
        bits = 0.0
    if not 1.5 <= bits <= 16:
        raise BadRequest(f"precision: '{key}' must give 1.5 to 16 bits per weight, as in 'exl2-4.65bpw'")
    return bits


class Precision(SparseRecord, kw_only=True):
    """
    Formats of one deployment: stored weights, KV cache, and what the products are computed in.

    `experts`, when given, is the format of routed experts where it differs from the other weights
    (gpt-oss keeps attention in bf16 and experts in MXFP4). `attention`, when given, is that of the projections into
    attention; its output's is the other weights' (DeepSeek in NVFP4).
    """

    weights: str = "bf16"
    kv: str = "bf16"
    activations: str = "bf16"
    experts: str | None = None
    attention: str | None = None

    def by_name(self) -> dict[str, str | None]:
        """The formats, as a row of an answer has them."""
        return {name: getattr(self, name) for name in self.__struct_fields__}

    @property
    def stored(self) -> str:
        """What most weights are stored in, by which a deployment is named: the experts' format where they differ."""
        return self.experts or self.weights
