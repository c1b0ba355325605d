"""The attention that an exported axolotl file asks for is one that the part has."""

from datetime import date

import pytest

from tonnage import export
from tonnage.domain.train_plan import TrainPlan
from tonnage.questions.ask import answer
from tonnage.questions.launchable import launchable_option


@pytest.mark.parametrize(
    ("part", "wanted"), [("T4", "attn_implementation: sdpa"), ("A10G", "attn_implementation: flash_attention_2")]
)
def test_no_flash_attention_2_before_ampere(part: str, wanted: str) -> None:
    fields = {"model": "meta-llama/Llama-2-7b-hf", "method": "qlora", "tokens": "1M", "accelerator": part}
    plan = answer("finetune", fields, today=date(2026, 11, 22))
    assert isinstance(plan, TrainPlan)
    launched, option = launchable_option(plan)
    text = "".join(export.export(launched, option, to="axolotl").values())
    assert wanted in text and text.count("attn_implementation") == 1
