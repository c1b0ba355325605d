"""Files of llama.cpp keep more than the experts in few bits."""

import pytest

from tonnage.core.deployment import resolve
from tonnage.domain.case import ServeCase, Traffic


def test_weights_beside_experts_of_4_bits_are_in_8() -> None:
    """gpt-oss-20b-mxfp4.gguf has 12.1 GB; vLLM's checkpoint has 13.8 GB, with these weights at 16 bits."""

    def weights(engine: str) -> float:
        case = ServeCase(
            model="openai/gpt-oss-20b", accelerator="rtx-4090", engine=engine, traffic=Traffic(batch=1), isl=512, osl=32
        )
        at = resolve(case)
        assert at.placement.precision.experts == "mxfp4"
        return sum(part.value for part in at.pool.memory.parts if part.name.startswith("weights")) / 1e9

    # Experts are counted with the padding that engines of 16-bit kernels give them, 6.5 % more.
    assert weights("llamacpp") == pytest.approx(12.1, rel=0.06)
    assert weights("vllm") == pytest.approx(13.8, rel=0.06)
