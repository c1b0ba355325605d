"""Options by the names that other programs give them."""

import click
import pytest

from tonnage.cli import COMMANDS, our_option, root, theirs_by_ours


@pytest.mark.parametrize("name", ["--gpu", "--GPU_type", "--device"])
def test_an_option_has_our_name_only_where_the_command_has_it(name: str) -> None:
    assert our_option(name, ["--accelerator", "--tp"]) == "--accelerator"
    assert our_option(name, ["--tp"]) is None


def test_one_name_means_what_the_command_has() -> None:
    """A batch is requests in flight for a server and sequences of a step for a training run."""
    assert our_option("--batch-size", ["--concurrency", "--rate"]) == "--concurrency"
    assert our_option("--batch-size", ["--global-batch"]) == "--global-batch"


def test_every_row_names_an_option_that_some_command_has() -> None:
    ctx = click.Context(root)
    known: set[str] = set()
    waiting = [root.get_command(ctx, name) for name in COMMANDS]
    while waiting:
        command = waiting.pop()
        known |= {name for param in command.get_params(ctx) for name in param.opts}
        if isinstance(command, click.Group):
            waiting += [command.get_command(ctx, name) for name in command.list_commands(ctx)]
    assert {f"--{our}" for our in theirs_by_ours()} <= known
