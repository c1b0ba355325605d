"""Published EAGLE-3 drafts: their shapes, and how much of what they draft is kept at each depth."""

import pytest

from tonnage.catalog.eagle import (
    TEMPERED,
    acceptance_for,
    accepted,
    eagle_draft,
    eagle_drafts,
    tokens_gained,
)
from tonnage.catalog.models import model, model_ids
from tonnage.catalog.rows import DATA, number, table
from tonnage.errors import BadFact, UnknownName
from tonnage.physics.parameters import parameters

ROWS = list(table(DATA / "models" / "eagle3_acceptance.csv"))
DRAFTS = list(table(DATA / "models" / "eagle3.csv"))


def test_each_draft_reads_the_width_of_the_models_it_is_for() -> None:
    known = set(model_ids())
    for row in DRAFTS:
        draft = eagle_draft(row["draft"])
        assert set(draft.targets) <= known and draft in eagle_drafts(draft.targets[0])
        assert all(model(id).hidden_size == draft.hidden_size for id in draft.targets), draft.id
        assert row["source"] and row["checked"].startswith("20")
    with pytest.raises(UnknownName, match="draft model"):
        eagle_draft("yuhuili/EAGLE3-of-nothing")


@pytest.mark.parametrize(
    ("id", "billions"),
    [("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", 0.425), ("nebius/EAGLE3-gpt-oss-120b", 0.307)],
)
def test_a_draft_has_the_parameters_of_its_matrices(id: str, billions: float) -> None:
    # One layer, twice the usual input of queries, keys and values, the matrix that fuses three layers, and the head;
    # the card of nebius' draft says 0.4B with what maps its words to the target's.
    assert parameters(eagle_draft(id).model).value == pytest.approx(billions * 1e9, rel=0.01)


def test_every_row_of_acceptance_names_a_draft_its_task_and_its_source() -> None:
    for row in ROWS:
        length, depth = number(row, "length"), number(row, "depth")
        assert row["task"] and row["source"] and row["checked"].startswith("20") and row["measured"].startswith("20")
        assert length >= 1.0
        assert row["shape"] in {"chain", "tree"} and row["text"] in {"real", "random", "unstated"}
        shares = [float(share) for share in row["per_position"].split(";") if share]
        if shares:  # each position counts what was kept up to it, so that they fall and add up to the length
            assert depth == len(shares) and shares == sorted(shares, reverse=True)
            assert 1.0 + sum(shares) == pytest.approx(length, abs=0.02)


def test_trees_and_prompts_that_nobody_states_set_nothing() -> None:
    silent = {row["draft"] for row in ROWS} - {
        row["draft"] for row in ROWS if row["shape"] == "chain" and row["text"] == "real" and row["depth"]
    }
    assert "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B" in silent
    assert all(accepted(id, 1) is None for id in silent)
    # The tree of the paper keeps 6.1 tokens of Llama-3.1-8B, vLLM's chain of seven 3.5.
    found = accepted("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", 7)
    assert tokens_gained(found.high, 7) == pytest.approx(3.53)


def test_the_low_end_is_of_the_task_that_keeps_least_with_sampling() -> None:
    warm = accepted("nvidia/Llama-4-Maverick-17B-128E-Eagle3", 3)
    assert tokens_gained(warm.low, 3) == pytest.approx(2.37) and tokens_gained(warm.high, 3) == pytest.approx(3.08)
    greedy = accepted("RedHatAI/Qwen3-8B-speculator.eagle3", 3)
    assert tokens_gained(greedy.low, 3) == pytest.approx(1.0 + TEMPERED * (0.6541 + 0.3993 + 0.2020))
    assert greedy.low < greedy.high


@pytest.mark.parametrize("row", [r for r in ROWS if r["per_position"]], ids=lambda r: f"{r['draft']}-{r['task']}")
def test_one_chance_for_every_position_says_too_little_of_short_chains_not_too_much(row: dict[str, str]) -> None:
    shares = [float(share) for share in row["per_position"].split(";")]
    alike = acceptance_for(1.0 + sum(shares), len(shares))
    for tokens in range(1, len(shares)):
        counted = 1.0 + sum(shares[:tokens])
        assert 0.93 * counted < tokens_gained(alike, tokens) < counted


def test_a_length_that_no_chain_yields_is_refused() -> None:
    assert acceptance_for(tokens_gained(0.62, 5), 5) == pytest.approx(0.62, abs=1e-6)
    with pytest.raises(BadFact, match="yield 1 to 4 tokens"):
        acceptance_for(4.2, 3)
