"""
How is it asked from a terminal? One file per command, holding options and no arithmetic.

A command reads its options into a request, hands it to the planner, and shows the answer through a
report. The root below finds a command in a table and imports its file only when it runs, so that
`tonnage --help` stays instant; a listed command whose file does not exist is hidden. Whatever a user
can cause ends as one sentence on stderr.

Exit codes: 0 answered, 2 bad request, 3 infeasible (the command's own `ctx.exit(3)`), 130 interrupted,
1 the reader of the output went away (the code click gives it).
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from tonnage.errors import TonnageError, did_you_mean, echo, nearest
from tonnage.version import __version__

if TYPE_CHECKING:
    from datetime import date

    from tonnage.catalog import Additions

_BESIDE_FIELDS: Final = {"plot": "chart picture", "output": "out save o-file"}
"""Options that belong to no field of a question: names that other programs give them."""


@cache
def theirs_by_ours() -> Mapping[str, list[str]]:
    """Our option: what others call it."""
    from tonnage.domain.requests.field import ALIASES  # only who mistypes an option waits for it

    fields = {name.replace("_", "-"): theirs for name, theirs in ALIASES.items()}
    return {name: theirs.split() for name, theirs in (fields | _BESIDE_FIELDS).items()}


def our_option(name: str, known: Collection[str]) -> str | None:
    """
    The option of ours that another program calls `name`, if this command has it.

    Parameters
    ----------
    name : str
        The option as typed, such as `--gpu`; case, and dashes or underscores, do not matter.
    known : collection of str
        The command's own options, such as `--accelerator`.
    """
    plain = name.lstrip("-").lower().replace("_", "-")
    return next(
        (f"--{our}" for our, theirs in theirs_by_ours().items() if plain in theirs and f"--{our}" in known), None
    )


COMMANDS: Final[dict[str, str]] = {
    "fit": "What must be resident, and does it fit? The largest x that still does.",
    "local": "What runs on this machine or a named one, how fast, and what starts it.",
    "plan": "Which accelerators, how many, arranged how, at what cost.",
    "cost": "Renting against owning: break-even, sensitivities, rules of thumb.",
    "predict": "Cases in as JSON lines, predictions out as JSON lines.",
    "simulate": "One configuration over time: percentiles, occupancy, capacity.",
    "compare": "Ways to serve the same requests, or plans and cases, side by side.",
    "sweep": "A grid of questions over many cores or machines.",
    "explain": "Where each number of an answer comes from.",
    "export": "Files that start a plan on an engine or orchestrator.",
    "advise": "What to change in a service that runs, by what its metrics show.",
    "adopt": "What a running deployment's own file does, and what should run instead.",
    "check": "What changed against a kept plan: for continuous integration.",
    "verify": "A kept plan made again: the same to the byte, or what differs and why.",
    "accuracy": "Predicted against measured, by block.",
    "measure": "What an endpoint really does; reports of other tools; size from them.",
    "diagnose": "What limits a running system, by which evidence, and what to do.",
    "history": "Every measurement made here: list, show, export.",
    "calibrate": "Own measurements become the numbers that later answers use.",
    "mcp": "The planner as tools for assistants (Model Context Protocol).",
    "web": "The page and the HTTP API, on this machine.",
    "trace": "Any PyTorch module becomes a profile that stands wherever a model does.",
    "fields": "The fields of a question: unit, bounds, default, meaning, by group.",
    "data": "Tables newer than the program: in use, update, what differs, pin, verify.",
    "catalog": "Accelerators, models, offers and providers, with sources and dates.",
}
"""Each command, in a module of its name, and the sentence that --help shows for it."""

BAD_REQUEST: Final = 2
INTERRUPTED: Final = 130
READER_GONE: Final = 1
WIDEST: Final = 110
"""Columns that help may take."""

_NO_ARGUMENTS: Final = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""What click 8.2 and later raise for a group without arguments; earlier ones print the help themselves."""


class Root(click.Group):
    """The `tonnage` command: finds sub-commands in COMMANDS, and turns what users cause into one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if importlib.util.find_spec(f"tonnage.cli.{name}") is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = getattr(importlib.import_module(f"tonnage.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click's own version imports every command to learn its first sentence.
        rows = [(name, COMMANDS[name]) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        """Run and exit; the only place where an error becomes a sentence and a code."""
        options["standalone_mode"] = False
        try:
            result = super().main(args, *rest, **options)
            if sys.stdout is not None:  # closed by the shell: `>&-`
                sys.stdout.flush()
        except _NO_ARGUMENTS as error:
            click.echo(error.format_message())
            sys.exit(0)
        except click.ClickException as error:
            _fail(_usage_sentence(error))
        except TonnageError as error:
            _fail(str(error))
        except (KeyboardInterrupt, click.Abort):
            _drop_output()
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            _drop_output()
            sys.exit(READER_GONE)
        except MemoryError:
            _fail("the request needs more memory than this machine has; ask for less at once")
        except UnicodeEncodeError:
            _fail(
                "an argument or a name holds characters that are no text (half of a surrogate pair); write it in UTF-8"
            )
        except RecursionError:
            _fail("the input is nested too deeply to be read")
        except OSError as error:
            if not error.filename:  # the output itself failed, as on a full disk
                _drop_output()
            _fail(_file_sentence(error))
        # Without standalone mode click hands back the code of ctx.exit(), or what the command returned.
        sys.exit(result if isinstance(result, int) else 0)


@click.group(
    name="tonnage",
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST, "show_default": True},
)
@click.version_option(__version__, message="tonnage %(version)s")
def root() -> None:
    """
    Which accelerators a model needs, for training and for serving: how many, arranged how, how fast,
    at what cost, how sure.
    """


def main() -> NoReturn:
    """The `tonnage` program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a console that cannot print "–" prints "?"
            stream.reconfigure(errors="replace")
    root.main(prog_name="tonnage", terminal_width=_columns())


def _columns() -> int:
    """Columns of help, as click finds them, but without `shutil` and the archives that it loads."""
    try:
        columns = int(os.environ.get("COLUMNS") or 0)
    except ValueError:
        columns = 0
    try:
        columns = columns or os.get_terminal_size().columns
    except (ValueError, OSError):  # no terminal
        columns = 80
    return max(min(columns or 80, WIDEST) - 2, 50)


def _usage_sentence(error: click.ClickException) -> str:
    """
    click's message on one line, without the program's name: a wrong option or command with the nearest name or what
    others call it, and where help stands.
    """
    message = " ".join(error.format_message().split()).rstrip(".")
    ctx = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption):
        message = f"no option '{echo(error.option_name)}'{_instead(error, _options(ctx))}"
    elif ctx is not None and isinstance(ctx.command, click.Group) and "No such command" in message:
        quoted = re.match(r"""No such command (['"])(.*?)\1(?:\.|$)""", message)
        name = quoted[2] if quoted else ""
        known = ctx.command.list_commands(ctx)
        hint = did_you_mean(nearest(name, known, count=1))
        message = f"no command '{echo(name)}'; {hint}commands: {', '.join(known)}"
    else:
        message = message[:1].lower() + message[1:] + _as_option(message, _options(ctx))
    return message + (f" (see `{ctx.command_path} --help`)" if ctx is not None else "")


def _as_option(message: str, known: list[str]) -> str:
    """Where a name stands that no argument takes: the option that takes an accelerator."""
    extra = re.search(r"unexpected extra arguments? \((.*)\)", message)
    if extra is None or "--accelerator" not in known:
        return ""
    return f"; name an accelerator with --accelerator '{echo(extra[1])}'"


def _instead(error: click.NoSuchOption, known: list[str]) -> str:
    """What to write in place of an option that the command does not have: another one of it, or another question."""
    if (our := our_option(error.option_name, known)) is not None:
        return f"; here it is '{our}'"
    if error.option_name == "--quick" and error.ctx is not None and error.ctx.info_name == "REQUEST":
        return "; a request file says it itself: quick: true"
    if error.option_name == "--quick":
        return "; nothing is simulated here that it could leave out: ask without it"
    if close := nearest(error.option_name, known, count=1) or tuple(error.possibilities or ())[:1]:
        return f"; {did_you_mean(close)}".rstrip()
    from tonnage.questions.registry import KINDS
    from tonnage.questions.request_schema import describe_fields

    wanted = error.option_name.lstrip("-").replace("-", "_")
    takers = [kind for kind in KINDS if wanted in {field.name.rpartition(".")[2] for field in describe_fields(kind)}]
    return f"; `tonnage plan` has it for {', '.join(takers)}" if takers else ""


def _options(ctx: click.Context | None) -> list[str]:
    return (
        []
        if ctx is None
        else [name for param in ctx.command.get_params(ctx) for name in param.opts if name[:2] == "--"]
    )


def _file_sentence(error: OSError) -> str:
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    return f"{echo(error.filename)}: {reason}" if error.filename else f"cannot read or write: {reason}"


def _fail(sentence: str) -> NoReturn:
    # A message is one line whatever a file or an argument held.
    click.echo("tonnage: " + " ".join(str(TonnageError(sentence)).split()), err=True)
    sys.exit(BAD_REQUEST)


def _drop_output() -> None:
    """Point stdout at nothing, so that the interpreter's own last flush cannot fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return  # stdout is closed, or no real file (under a test)


def remark_date(today: date | None, additions: Additions) -> None:
    """Say on stderr that a day lies before the price book, which no answer could know."""
    if today is None:
        return
    from tonnage.catalog.offers import date_remark

    remark = date_remark(today, additions=additions)
    if remark is not None:
        click.echo(f"tonnage: {remark}", err=True)
