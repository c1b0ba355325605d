"""Plans kept from earlier releases: read by all that reads plans, or refused with what to do."""

import json
from pathlib import Path

import msgspec
import pytest
from tests.command import told as command

from tonnage.domain.plan import PLAN_SCHEMA, ServePlan
from tonnage.domain.train_plan import TrainPlan
from tonnage.errors import BadFact
from tonnage.questions.ask import plan_of_text, read_plan
from tonnage.questions.check.check import Comparable, check

OLDER = sorted((Path(__file__).parents[1] / "data/older").glob("plan-*.json"))
"""As they were written then, never rewritten: NAME-KIND-COMMIT.json."""


def test_there_are_older_plans() -> None:
    assert OLDER


@pytest.mark.parametrize("path", OLDER, ids=lambda path: path.stem)
def test_an_older_plan_is_read_explained_exported_and_compared(path: Path, tmp_path: Path) -> None:
    plan = read_plan(str(path))
    assert isinstance(plan, ServePlan) and plan.options
    told = json.loads(path.read_text(encoding="utf-8"))
    assert plan.options[0].accelerators == told["options"][0]["accelerators"]
    assert plan.options[0].cost.value == told["options"][0]["cost"]["value"]
    for arguments in (["explain", str(path)], ["export", str(path), "--to", "vllm", "-o", str(tmp_path / "files")]):
        done = command(*arguments)
        assert done.exit_code == 0, done.output
    assert not check(plan, plan).changed


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("tonnage.plan/3", "a newer release wrote it; install that, or plan the request again"),
        ("tonnage.plan/99", "a newer release wrote it"),
        ("tonnage.plan/0", "expected .*tonnage.plan/2.*plan the request again"),
        ("tonnage.plan/two", "expected .*tonnage.plan/2"),
        ("tonnage.measurement/3", "expected .*tonnage.plan/2"),
        (None, "has no 'schema'.*plan the request again"),
    ],
)
def test_another_schema_is_refused_with_what_to_do(tmp_path: Path, schema: str | None, told: str) -> None:
    fields = json.loads(OLDER[0].read_text())
    fields["schema"] = schema
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))
    with pytest.raises(BadFact, match=told) as caught:
        read_plan(str(path))
    assert "\n" not in str(caught.value)


def test_a_field_that_is_missing_or_of_another_type_is_named_with_what_to_do(tmp_path: Path) -> None:
    fields = json.loads(OLDER[0].read_text())
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({name: value for name, value in fields.items() if name != "sentence"}))
    with pytest.raises(BadFact, match=r"sentence.*plan the request again"):
        read_plan(str(path))
    path.write_text(json.dumps(fields | {"options": "none"}))
    with pytest.raises(BadFact, match=r"options.*plan the request again"):
        read_plan(str(path))


def test_fields_of_a_later_release_are_passed_over(tmp_path: Path) -> None:
    fields = json.loads(OLDER[0].read_text())
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(fields | {"invented_later": {"a": 1}}))
    assert read_plan(str(path)) == read_plan(str(OLDER[0]))


SCHEMA_1 = sorted((Path(__file__).parents[1] / "data/schema1").glob("*.json"))
"""One plan of each kind in the names of schema 1, never rewritten."""


def test_every_kind_of_plan_was_kept_in_schema_1() -> None:
    kinds = {json.loads(path.read_text())["kind"] for path in SCHEMA_1}
    assert kinds == {"serve", "batch", "infer", "train", "finetune", "lifecycle", "fleet"}


def numbers(value: object) -> list[float]:
    """Every number of a document, sorted."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return sorted(number for part in parts for number in numbers(part))
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


@pytest.mark.parametrize("path", SCHEMA_1, ids=lambda path: path.stem)
def test_a_plan_of_schema_1_keeps_every_number(path: Path) -> None:
    plan = read_plan(str(path))
    assert plan.schema == PLAN_SCHEMA
    written = json.loads(msgspec.json.encode(plan))
    assert numbers(written) == numbers(json.loads(path.read_text(encoding="utf-8")))
    assert plan_of_text(json.dumps(written), "again") == plan


@pytest.mark.parametrize("path", SCHEMA_1, ids=lambda path: path.stem)
def test_a_plan_of_schema_1_is_explained_checked_and_exported(path: Path, tmp_path: Path) -> None:
    plan = read_plan(str(path))
    done = command("explain", str(path))
    assert done.exit_code == 0, done.output
    if isinstance(plan, Comparable):
        assert not check(plan, plan).changed
    if isinstance(plan, ServePlan | TrainPlan) and plan.options:
        target = "vllm" if isinstance(plan, ServePlan) else "torchrun"
        done = command("export", str(path), "--to", target, "-o", str(tmp_path / "files"))
        assert done.exit_code == 0, done.output


def test_plans_of_schema_1_are_compared() -> None:
    path = next(str(path) for path in SCHEMA_1 if path.stem == "serve")
    done = command("compare", path, str(OLDER[0]))
    assert done.exit_code == 0, done.output
