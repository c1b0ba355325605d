"""Shells complete values: names of the catalogue in any case, models also by what follows their publisher."""

import pytest
from click.shell_completion import ShellComplete

from tonnage.cli import root


def offered(*words: str) -> list[str]:
    """What a shell is offered for the last word."""
    completion = ShellComplete(root, {}, "tonnage", "_TONNAGE_COMPLETE")
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(("words", "expected"), [
    (("fit", "llama-3.1-70b"), "meta-llama/Meta-Llama-3.1-70B"),
    (("plan", "serve", "qwen/qwen3-8"), "Qwen/Qwen3-8B"),
    (("plan", "serve", "8B", "--accelerator", "H200"), "h200-sxm-141gb"),
    (("plan", "serve", "8B", "--provider", "Ver"), "verda"),
    (("export", "plan.json", "--to", "vl"), "vllm"),
    (("catalog", "accelerators", "B20"), "b200-sxm-180gb"),
])  # fmt: skip
def test_values_are_completed(words: tuple[str, ...], expected: str) -> None:
    found = offered(*words)
    assert expected in found
    assert all(words[-1].lower() in name.lower() for name in found)
