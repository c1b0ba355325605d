"""Racks whose trays are rented one by one are planned as one domain; chips of a torus in the slices that are sold."""

from typing import Any

import tonnage


def planned(model: str, **asked: str | None) -> Any:
    return tonnage.plan_serve(model, **{"traffic": "chat", "quick": True, "tpot": "80 ms", **asked})


def test_deepseek_r1_on_gb200_is_planned_over_several_trays_and_says_so() -> None:
    # Mostly answers: with long prompts every rank of a wide replica waits for one rank's prompt, and trays alone win.
    load = {"rate": "100/s", "prompt_tokens": "64", "output_tokens": "1024", "traffic": None, "tpot": "50 ms"}
    plan = planned("deepseek-ai/DeepSeek-R1", accelerator="gb200-nvl72", **load)
    wide = [option for option in plan.options if option.configuration.layout.ranks > 4]
    assert {option.configuration.layout.ep for option in wide} >= {8}
    assert all(option.configuration.layout.pp == 1 for option in wide)
    assert any("trays of one rack" in said for said in plan.provenance.assumed)


def test_a_model_larger_than_a_chip_fits_a_slice() -> None:
    plan = planned("llama-3.1-70b", rate="1/s", accelerator="tpu-v6e")
    assert plan.feasible and plan.options[0].configuration.layout.tp == 8
    assert plan.options[0].bill.instance_type.endswith("2x4")
