"""What is worth measuring before a plan is bought: only what may change the choice, the most telling first."""

import itertools
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import tonnage
from tonnage.cli import root
from tonnage.domain.plan import ServePlan
from tonnage.errors import BadRequest
from tonnage.questions.calibrate import worth

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture(scope="module")
def plan() -> ServePlan:
    return tonnage.plan_serve(
        MODEL,
        rate="20/s",
        traffic="chat",
        ttft="500 ms",
        tpot="40 ms",
        quick=True,
        accelerator=["h200-sxm-141gb", "h100-sxm5-80gb", "l40s", "rtx-pro-6000-bw-server"],
    )


def test_each_proposal_raises_the_chance(plan: ServePlan) -> None:
    found = worth.measure_plan(plan)
    chances = [found.sure_now, *(proposal.sure_after for proposal in found.proposals)]
    assert found.proposals and len(found.proposals) <= 3
    assert all(later - earlier >= 0.01 for earlier, later in itertools.pairwise(chances))
    for proposal in found.proposals:
        option = plan.options[proposal.option]
        assert proposal.accelerator == option.configuration.accelerator and proposal.usd > 0
        assert proposal.loads == tuple(sorted(proposal.loads)) and proposal.loads[0] == 1.0


def test_nothing_is_proposed_where_nothing_competes(plan: ServePlan) -> None:
    alone = worth.measure_plan(msgspec.structs.replace(plan, options=plan.options[:1]))
    assert not alone.proposals and "no measurement" in alone.sentence
    with pytest.raises(BadRequest, match="no options"):
        worth.measure_plan(msgspec.structs.replace(plan, options=()))


def test_what_is_known_exactly_is_not_measured(plan: ServePlan) -> None:
    def sharp(rate: object) -> object:
        return msgspec.structs.replace(rate, low=rate.value * 0.999, high=rate.value * 1.001)

    options = tuple(
        msgspec.structs.replace(
            o,
            capacity=msgspec.structs.replace(
                o.capacity,
                max_rate_per_s=sharp(o.capacity.max_rate_per_s),
                tpot_s=sharp(o.capacity.tpot_s),
                ttft_s=sharp(o.capacity.ttft_s),
            ),
        )
        for o in plan.options
    )
    found = worth.measure_plan(msgspec.structs.replace(plan, options=options))
    assert found.sure_now > 0.97 and not found.proposals


def test_a_slow_stack_needs_more_replicas_and_misses_its_objective(plan: ServePlan) -> None:
    one = worth._rivals(plan)[0]
    faster = np.array([-6.0, 0.0, 6.0])
    slow, usual, quick = worth._costs(one, faster, limits=(None, None))
    assert slow > usual >= quick and usual == pytest.approx(one.option.cost.value)
    assert np.isinf(worth._costs(one, faster, limits=(None, one.option.capacity.tpot_s.value * 1.01))[0])


def test_the_command(plan: ServePlan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode({"kind": "serve", **msgspec.to_builtins(plan)}))
    told = CliRunner().invoke(root, ["measure", "plan", str(path)])
    assert told.exit_code == 0 and "then right" in told.output and "chance of" in told.output
    machine = json.loads(CliRunner().invoke(root, ["measure", "plan", str(path), "--json"]).output)
    assert machine["schema"] == "tonnage.measure_plan/1"
