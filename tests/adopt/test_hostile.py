"""Files that are no deployment's: each is refused with a sentence, in time that grows no faster than the file."""

from __future__ import annotations

import pytest

from tonnage.adopt import read_running
from tonnage.errors import TonnageError

SPEC = "kind: Deployment\napiVersion: apps/v1\nspec:\n"
HOSTILE = {
    "a quote that never closes": ("vllm serve 'a\n" + "b\n" * 100_000, "a.sh", "quote left open"),
    "lines that go on": ("vllm serve \\\n" * 20_000, "a.sh", "quote left open"),
    "a variable that doubles": ("A=xx\n" + "A=$A$A$A\n" * 40 + "vllm serve $A\n", "a.sh", "KiB"),
    "too many words": ("vllm serve a\n" * 9_000, "a.sh", "20,000 words"),
    "anchors in anchors": (
        "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{p: *a{n - 1}, q: *a{n - 1}}}\n" for n in range(1, 40)), "a.yaml",
        "anchors",
    ),
    "merges in merges": (
        "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)), "a.yaml",
        "anchors",
    ),
    "a list that holds itself": ("a: &a [*a]\n", "a.yaml", "anchors"),
    "a name given twice": ("services:\n  a:\n    command: x\n    command: y\n", "a.yaml", "'command' twice"),
    "replicas that are none": (f"{SPEC}  replicas: 2.5\n  template: {{}}\n", "a.yaml", "spec.replicas"),
    "replicas without end": (f"{SPEC}  replicas: .inf\n", "a.yaml", "spec.replicas"),
    "a number of 5,000 digits": (f"model = {{}}\n[training]\nsteps = {'9' * 5_000}\n", "a.toml", "TOML"),
}  # fmt: skip


@pytest.mark.parametrize("why", HOSTILE)
def test_what_no_deployment_needs_is_refused(why: str) -> None:
    """Without bounds most of these take longer than the suite lets any test run, or all memory."""
    text, name, told = HOSTILE[why]
    with pytest.raises(TonnageError, match=told):
        read_running(text, name=name)


@pytest.mark.parametrize(
    ("field", "value"),
    [("spec", "[]"), ("spec", "x"), ("spec", "{template: []}"), ("spec", "{template: {spec: {containers: {a: 1}}}}"),
     ("spec", "{template: {spec: {containers: [{env: 3, args: {a: 1}, resources: []}]}}}"), ("kind", "[a]")],
)  # fmt: skip
def test_fields_of_another_shape_are_no_crash(field: str, value: str) -> None:
    whole = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": "{}"} | {field: value}
    with pytest.raises(TonnageError, match="starts nothing"):
        read_running("".join(f"{name}: {text}\n" for name, text in whole.items()), name="a.yaml")


def test_quotes_arrays_and_comments_go_on_over_lines_as_in_bash() -> None:
    script = """
# it's a comment, and don't count its quotes
ARGS=(
  --tensor-parallel-size 2   # that's all
  --served-model-name 'a
b'
)
MODEL='org/name'  # isn't open
vllm serve "$MODEL" "${ARGS[@]}" \\
  --max-num-seqs 8
"""
    found = read_running(script, name="a.sh")
    assert (found.model, found.value("tp"), found.value("max_num_seqs")) == ("org/name", 2, 8)


def test_a_count_with_a_fraction_is_named_and_not_rounded() -> None:
    found = read_running("vllm serve org/name --tensor-parallel-size 2.5 --max-num-seqs 8", name="a.sh")
    assert found.value("tp") is None
    assert found.unknown == ("--tensor-parallel-size 2.5",)


def test_a_range_of_replicas_counts_at_its_larger_end() -> None:
    text = "type: service\nreplicas: 1..4\ncommands: [vllm serve org/name]\nresources: {gpu: H100}\n"
    assert read_running(text, name="a.dstack.yml").replicas == 4
