"""The attention that an exported axolotl file asks for is one that the part has."""

import pytest
from tests.export.plans import exported

import tonnage


@pytest.mark.parametrize(
    ("part", "wanted"), [("T4", "attn_implementation: sdpa"), ("A10G", "attn_implementation: flash_attention_2")]
)
def test_no_flash_attention_2_before_ampere(part: str, wanted: str) -> None:
    plan = tonnage.plan_finetune("meta-llama/Llama-2-7b-hf", method="qlora", tokens="1M", accelerator=part)
    (text,) = exported(tonnage.to_dict(plan), "axolotl").values()
    assert wanted in text and text.count("attn_implementation") == 1
