"""
Options of commands: of the fields of their question, of how much is printed, of servers; and the sign of a long one.

Names, help, groups and completion of a question's options are declared with its fields. `--why`, `--all` and `--top`
say how much of an answer is printed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from tonnage.domain.requests.field import GROUPS, TAKEN, Field, groups_of
from tonnage.errors import BadRequest
from tonnage.record import Record
from tonnage.units import MiB, read

if TYPE_CHECKING:
    from tonnage.catalog import Additions
    from tonnage.web.records import Limits

Command = Callable[..., None]
FILE: Final = click.Path(dir_okay=False)
INPUT: Final = click.Path(dir_okay=False, allow_dash=True)
"""A file to read, or - for standard input."""
INFEASIBLE: Final = 3
INTERRUPTED: Final = 130
"""Stopped by Ctrl-C, with the best found so far if there was one."""


class _Option(click.Option):
    """An option that knows the heading its field is listed under."""

    def __init__(self, *names: Any, group: str, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.group = group


class Grouped(click.Command):
    """A command whose help lists the options of its question under the headings of their fields."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those of no field last."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and not isinstance(param, click.Argument):  # the line of usage names those
                rows.setdefault(getattr(param, "group", ""), []).append(record)
        for heading in (*GROUPS, ""):
            if heading in rows:
                with formatter.section(heading or "Options"):
                    formatter.write_dl(rows[heading])


def request_options(
    struct: type[msgspec.Struct], *, argument: str | tuple[str, ...] = "model"
) -> Callable[[Command], Command]:
    """One option for each field of a request, except those that are the command's arguments."""

    from tonnage.core.reading import request_fields  # commands without such options load none of it

    def decorate(function: Command) -> Command:
        for field in reversed(request_fields(struct)):
            if field.name not in ((argument,) if isinstance(argument, str) else argument):
                function = _option(field)(function)
        return function

    return decorate


def request_groups(struct: type[msgspec.Struct]) -> Callable[[Command], Command]:
    """One option for each group of a request, which takes a field of it at a time."""

    def decorate(function: Command) -> Command:
        for group in groups_of(struct):
            function = click.option(
                f"--{group.name}",
                multiple=True,
                metavar="FIELD=VALUE",
                help=group.help,
                callback=_read_files_of(group.of),
            )(function)
        return function

    return decorate


def _read_files_of(struct: type[msgspec.Struct]) -> Callable[..., Any]:
    """`--serve quotes=FILE` as the entries of that file; texts without such a field stay as they are."""

    def read(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
        if not any("quotes" in text for text in given):
            return given
        from tonnage.core.quotes import quotes_of_file
        from tonnage.core.reading import request_fields

        files = {field.name for field in request_fields(struct) if field.reads == "entries"}
        pairs = [
            (name.strip(), value.strip()) for name, equals, value in (text.partition("=") for text in given) if equals
        ]
        if len(pairs) < len(given) or len({name for name, _ in pairs}) < len(pairs):
            return given  # the request says what is wrong
        return {name: quotes_of_file(value) if name in files else value for name, value in pairs}

    return read


def _option(field: Field) -> Callable[[Command], Command]:
    """A field as an option: a flag with its --no-, a file of entries, a list that may be repeated, or one value."""
    flag = "--" + field.name.replace("_", "-")
    more: dict[str, Any] = {"help": field.help, "cls": _Option, "group": field.group}
    if field.reads == "flag":
        return click.option(f"{flag}/--no-{flag[2:]}", field.name, default=None, **more)
    if field.reads == "entries":
        return click.option(flag, field.name, metavar="FILE", callback=_read_entries, **more)
    reads = field.reads
    if field.usual is not None and not field.usual.unit.startswith("/"):
        reads = field.usual.unit
        more["help"] += f"; a plain number is in {reads}"
    metavar = "|".join(field.choices) if field.choices and field.reads != "list" else reads.upper()
    more |= {"metavar": metavar, "shell_complete": _completing(field)}
    if field.reads == "list":
        return click.option(
            flag, *filter(None, [field.short]), field.name, multiple=True, callback=_join_values, **more
        )
    same = [f"--{other}" for other, ours in TAKEN.items() if ours == field.name]
    return click.option(flag, *same, *filter(None, [field.short]), field.name, **more)


def _join_values(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> str | None:
    """`--x a,b` and `--x a --x b` are one list."""
    return ",".join(given) if given else None


def _read_entries(ctx: click.Context, parameter: click.Parameter, given: str | None) -> list[Any] | None:
    """The entries of a file, YAML or JSON."""
    if given is None:
        return None
    from tonnage.core.quotes import quotes_of_file

    return quotes_of_file(given)


def _completing(field: Field) -> Callable[..., list[CompletionItem]]:
    """What a shell offers: the field's choices, or the names of its table."""

    def names() -> Iterable[str]:
        return field.choices if field.choices or not field.known else _list_names(field.known)

    return complete_from(names)


def _list_names(known: str) -> Iterable[str]:
    from tonnage.catalog import NOTHING
    from tonnage.core.reading import NAMES

    return NAMES[known].listed(NOTHING)


def complete_from(names: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """A completion of names in any case: those that begin so, else those that hold it, after a publisher, say."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        begun = incomplete.lower()
        known = list(names())
        found = [name for name in known if name.lower().startswith(begun)]
        return [CompletionItem(name) for name in found or [name for name in known if begun in name.lower()]]

    return complete


def name_argument(name: str, known: str, **more: Any) -> Callable[[Command], Command]:
    """An argument that is the name of something in the catalogue: models, accelerators, providers."""
    return click.argument(name, shell_complete=complete_from(lambda: _list_names(known)), **more)


Shown = TypeVar("Shown", bound=Callable[..., Any])
Struct = TypeVar("Struct", bound=msgspec.Struct)
QUIET_S: Final = 2.0
"""Shorter work says nothing while it runs. [s]"""
BETWEEN_S: Final = 0.1
"""Between two drawings of a bar. [s]"""
BAR: Final = 30
"""Characters of a bar."""


def on_terminal() -> bool:
    """Someone looks at what is printed: it is neither a file nor a pipe."""
    return sys.stdout.isatty()


why_option: Final = click.option(
    "--why", is_flag=True, help="the reasons as well: every section below the first screen"
)
additions_option: Final = click.option(
    "--additions",
    "--calibration",
    "folders",
    multiple=True,
    type=click.Path(),
    help="your own accelerators, offers and calibrations; none = not those of the user folder, "
    "published = also rows published of the same model, engine and part",
)
"""Every command whose answer may rest on measurements has it."""


def own_facts_options(command: Shown) -> Shown:
    """Adds `--set` and `--additions`, which `own_facts` takes out of the options of the command again."""
    return click.option(
        "--set", "overrides", multiple=True, metavar="ID.FIELD=VALUE", help="what-if on a catalogue fact"
    )(additions_option(command))


def own_facts(options: dict[str, Any]) -> Additions:
    """The user's own facts and what-ifs, as `--additions` and, where the command has it, `--set` name them."""
    from tonnage.catalog import gather

    return gather(paths=options.pop("folders"), overrides=options.pop("overrides", ()))


def reads(unit: str, *, sign: str = "") -> Callable[[click.Context, click.Parameter, str | None], float | None]:
    """A callback that reads a quantity with its unit; the sign that the option means anyhow may stand before it."""

    def convert(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
        return None if value is None else read(value.strip().removeprefix(sign), unit, field=param.opts[0])

    return convert


def struct_of(struct: type[Struct], options: Mapping[str, object], **more: object) -> Struct:
    """The struct of those options that are its fields, and of what they come to together."""
    return struct(**{name: options[name] for name in struct.__struct_fields__ if name in options} | more)


def show_options(of: str, *, most: int = 200) -> Callable[[Shown], Shown]:
    """Adds `--why`, `--all` and `--top`: how much of an answer is printed."""

    def decorate(command: Shown) -> Shown:
        command = click.option("--top", type=click.IntRange(1, most), help=f"so many {of}, by rank")(command)
        command = click.option("--all", "show_all", is_flag=True, help=f"all {of}")(command)
        return why_option(command)

    return decorate


def json_option(schema: str = "") -> Callable[[Shown], Shown]:
    """Adds `--json`, whose help names the schema that the answer says."""
    told = f"machine-readable, schema tonnage.{schema}/1" if schema else "the whole answer as JSON"
    return click.option("--json", "as_json", is_flag=True, help=told)


def _drawable(ctx: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    if path is not None:
        from tonnage.report.html import check_path

        check_path(path)
    return path


plot_option: Final = click.option(
    "--plot",
    metavar="FILE",
    callback=_drawable,
    help="draw it, too: FILE.svg, .png, or .html with the whole report",
)
"""Refused before the work where nothing could be drawn."""


def day_option(name: str, *, help: str) -> Callable[[Shown], Shown]:
    """Adds an option that is a date."""

    def day(ctx: click.Context, parameter: click.Parameter, given: datetime | None) -> date | None:
        return None if given is None else given.date()

    return click.option(name, type=click.DateTime(["%Y-%m-%d"]), callback=day, help=help)


today_option: Final = day_option("--today", help="count the age of prices from this date")


class Output(Record, kw_only=True):
    """How much of an answer is printed, and where else it goes."""

    top: int | None = None
    show_all: bool = False
    why: bool = False
    as_json: bool = False
    plot: str | None = None
    output: str | None = None
    """File that takes the answer as JSON."""

    def show(self, answer: object, **about: Any) -> None:
        """
        Write, print and draw an answer, and end with the code of one that was cut off or cannot be done.

        `about` goes to its report: where it was written, say.
        """
        from tonnage.questions import answers
        from tonnage.report.document import as_json

        if self.output is not None:
            Path(self.output).write_text(as_json(answer) + "\n", encoding="utf-8")
        if self.as_json:
            click.echo(as_json(answer))
        else:
            answers.show(answer, top=self.top, every=self.show_all, why=self.why, **about)
        if self.plot is not None:
            answers.plot(answer, self.plot)
        stopped = getattr(answer, "unfinished", "") or getattr(answer, "partial", False)
        if isinstance(stopped, str) and stopped:
            click.echo(f"tonnage: {stopped}", err=True)
        if stopped or not answers.works(answer):
            click.get_current_context().exit(INTERRUPTED if stopped else INFEASIBLE)


def output_of(options: dict[str, Any]) -> Output:
    """What `--why`, `--json` and their like say, taken out of the options of the command."""
    return Output(**{name: options.pop(name) for name in Output.__struct_fields__ if name in options})


@contextmanager
def show_progress(what: str, *, quiet_s: float | None = None) -> Iterator[Callable[[int, int], None]]:
    """
    After two seconds, or `quiet_s`, a line on stderr, if someone looks there, that says what is being done, for how
    long, and how to stop it; gone when the work ends. Work that knows how far it is tells (done, all) to what this
    gives.
    """
    far = (0, 0)

    def reached(done: int, total: int) -> None:
        nonlocal far
        far = done, total

    if not sys.stderr.isatty():
        yield reached
        return
    ended, began, quiet = threading.Event(), time.monotonic(), QUIET_S if quiet_s is None else quiet_s

    def tell() -> None:
        seen = ended.wait(quiet)
        while not seen:
            spent = time.monotonic() - began
            place = int(spent / BETWEEN_S) % (2 * BAR)
            done, total = far
            bar = "#" * round((BAR + 2) * done / total) if total else " " * min(place, 2 * BAR - place) + "##"
            count = f" {done:,} of {total:,}," if total else ""
            click.echo(f"\r[{bar:<{BAR + 2}}] {what},{count} {spent:,.0f} s; Ctrl-C stops it\x1b[K", err=True, nl=False)
            seen = ended.wait(BETWEEN_S)
        if time.monotonic() - began > quiet:
            click.echo("\r\x1b[K", err=True, nl=False)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield reached
    finally:
        ended.set()
        teller.join()


def watch_bar() -> Callable[[int, int], None]:
    """What draws on stderr how far a long run is, by (done, all) requests, if someone looks; more runs may follow."""
    began, drawn, seen = time.monotonic(), 0.0, sys.stderr.isatty()

    def tell(done: int, total: int) -> None:
        nonlocal began, drawn
        now = time.monotonic()
        ended = done >= total
        due = now - drawn > BETWEEN_S if drawn else now - began > QUIET_S / 2
        if seen and (due or (drawn and ended)):
            drawn = now
            share = done / max(1, total)
            bar = "#" * round(BAR * share)
            left = (now - began) * (1.0 - share) / share if share else 0.0
            rest = "" if ended or not done else f", {left:,.0f} s left"
            click.echo(f"\r[{bar:<{BAR}}] {done:,} of {total:,} requests{rest}\x1b[K", err=True, nl=ended)
        if ended:
            began, drawn = time.monotonic(), 0.0  # the next run, where there are several

    return tell


MIN_MEMORY_BYTES = 512 * MiB
"""Little more than what the libraries of a worker take."""
MIN_TIME_S, MAX_TIME_S = 0.1, 86_400.0


def limit_options(command: Command) -> Command:
    """Adds the options that `limits_of` reads."""
    for option in (
        click.option(
            "--workers",
            type=click.IntRange(1, 256),
            help="processes that plan and simulate [default: one a core, at least 2]",
        ),
        click.option("--memory-limit", default="4 GiB", help="of one worker process (on Linux)"),
        click.option("--time-limit", default="60 s", help="for the work on one question"),
    ):
        command = option(command)
    return command


def limits_of(options: dict[str, Any]) -> Limits:
    """
    The limits that the options name.

    Raises
    ------
    BadRequest
        A quantity cannot be read, or is too small or too large.
    """
    from tonnage.web.records import Limits

    time_s = read(options["time_limit"], "s", field="--time-limit")
    memory_bytes = read(options["memory_limit"], "bytes", field="--memory-limit")
    if not MIN_TIME_S <= time_s <= MAX_TIME_S:
        raise BadRequest(f"--time-limit: {time_s:g} s is not between {MIN_TIME_S:g} s and a day")
    if memory_bytes < MIN_MEMORY_BYTES:
        raise BadRequest(f"--memory-limit: {options['memory_limit']} is too little to plan in; give 512 MiB or more")
    workers = {} if options["workers"] is None else {"workers": options["workers"]}
    return Limits(question_s=time_s, memory_bytes=memory_bytes, **workers)
