"""Files that are no deployment's: each is refused with a sentence, in time that grows no faster than the file."""

from pathlib import Path
from typing import Any

import pytest
from tests.asked import Refused, printed, told

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
    "a document of two megabytes": ("a: " + "x" * 2_000_000, "a.yaml", "larger than 1024 KiB"),
    "tables of two megabytes": ("a = '" + "x" * 2_000_000 + "'", "a.toml", "larger than 1024 KiB"),
    "a script of a megabyte": ("#\n" * 500_000 + "vllm serve a\n", "a.sh", "script is longer than 256 KiB"),
    "lists in lists": ("a: " + "[" * 100 + "]" * 100, "a.yaml", "nested more than 60 deep or"),
    "a list of many": ("- 1\n" * 150_000, "a.yaml", "60 deep or holds more than 100,000 values"),
    "nodes without end": (f"#SBATCH --nodes={10**12}\nvllm serve a/b\n", "a.sh", "a whole number is expected"),
    "a name that turns round": ("vllm serve a/\u202eb\n", "a.sh", r"holds the character U\+202E"),
    "a number of 5,000 digits": (f"model = {{}}\n[training]\nsteps = {'9' * 5_000}\n", "a.toml", "TOML"),
}  # fmt: skip


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def running(file: str) -> Any:
    """What is read of a deployment on one accelerator."""
    load = ("--rate", "1/s", "--traffic", "chat", "--accelerator", "H100", "--provider", "lambda")
    return told("adopt", file, *load).running


def value(found: Any, name: str) -> Any:
    return next((setting.value for setting in found.settings if setting.name == name), None)


@pytest.mark.parametrize("why", HOSTILE)
def test_what_no_deployment_needs_is_refused(why: str, tmp_path: Path) -> None:
    """Without bounds most of these take longer than the suite lets any test run, or all memory."""
    text, name, said = HOSTILE[why]
    with pytest.raises(Refused, match=said):
        printed("adopt", written(tmp_path, name, text))


@pytest.mark.parametrize(
    ("field", "value"),
    [("spec", "[]"), ("spec", "x"), ("spec", "{template: []}"), ("spec", "{template: {spec: {containers: {a: 1}}}}"),
     ("spec", "{template: {spec: {containers: [{env: 3, args: {a: 1}, resources: []}]}}}"), ("kind", "[a]")],
)  # fmt: skip
def test_fields_of_another_shape_are_no_crash(field: str, value: str, tmp_path: Path) -> None:
    whole = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": "{}"} | {field: value}
    with pytest.raises(Refused, match="starts nothing"):
        printed("adopt", written(tmp_path, "a.yaml", "".join(f"{name}: {text}\n" for name, text in whole.items())))


def test_quotes_arrays_and_comments_go_on_over_lines_as_in_bash(tmp_path: Path) -> None:
    script = """
# it's a comment, and don't count its quotes
ARGS=(
  --tensor-parallel-size 2   # that's all
  --served-model-name 'a
b'
)
MODEL='meta-llama/Llama-3.1-8B'  # isn't open
vllm serve "$MODEL" "${ARGS[@]}" \\
  --max-num-seqs 8
"""
    found = running(written(tmp_path, "a.sh", script))
    assert (found.model, value(found, "tp"), value(found, "max_num_seqs")) == ("meta-llama/Llama-3.1-8B", 2, 8)


def test_a_count_with_a_fraction_or_beyond_all_is_named_and_not_rounded(tmp_path: Path) -> None:
    left = ["--tensor-parallel-size 2.5", f"--max-num-batched-tokens {2 * 10**15}"]
    script = f"vllm serve meta-llama/Llama-3.1-8B --max-num-seqs 8 {' '.join(left)}"
    found = running(written(tmp_path, "a.sh", script))
    assert value(found, "tp") is None and value(found, "max_num_seqs") == 8
    assert found.unknown == left


def test_a_range_of_replicas_counts_at_its_larger_end(tmp_path: Path) -> None:
    text = "type: service\nreplicas: 1..4\ncommands: [vllm serve meta-llama/Llama-3.1-8B]\nresources: {gpu: H100}\n"
    assert running(written(tmp_path, "a.dstack.yml", text)).replicas == 4
