"""Options of a command from the fields of its question: names, help, groups and completion, declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem

from tonnage.domain.requests.field import GROUPS, Field, groups_of
from tonnage.planning.requests.reading import request_fields

__all__ = ["Grouped", "request_groups", "request_options"]

Command = Callable[..., None]


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
            if record is not None:
                rows.setdefault(getattr(param, "group", ""), []).append(record)
        for heading in (*GROUPS, ""):
            if heading in rows:
                with formatter.section(heading or "Options"):
                    formatter.write_dl(rows[heading])


def request_options(struct: type[msgspec.Struct], *, argument: str = "model") -> Callable[[Command], Command]:
    """One option for each field of a request, except the one that is the command's argument."""

    def decorate(function: Command) -> Command:
        for field in reversed(request_fields(struct)):
            if field.name != argument:
                function = _option(field)(function)
        return function

    return decorate


def request_groups(struct: type[msgspec.Struct]) -> Callable[[Command], Command]:
    """One option for each group of a request, which takes a field of it at a time."""

    def decorate(function: Command) -> Command:
        for group in groups_of(struct):
            function = click.option(f"--{group.name}", multiple=True, metavar="FIELD=VALUE", help=group.help)(function)
        return function

    return decorate


def _option(field: Field) -> Callable[[Command], Command]:
    flag = "--" + field.name.replace("_", "-")
    more: dict[str, Any] = {"help": field.help, "cls": _Option, "group": field.group}
    if field.reads == "flag":
        return click.option(f"{flag}/--no-{flag[2:]}", field.name, default=None, **more)
    metavar = "|".join(field.choices) if field.choices and field.reads != "list" else field.reads.upper()
    more |= {"metavar": metavar, "shell_complete": _completing(field)}
    if field.reads == "list":
        return click.option(flag, *filter(None, [field.short]), field.name, multiple=True, callback=_joined, **more)
    return click.option(flag, *filter(None, [field.short]), field.name, **more)


def _joined(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> str | None:
    """`--x a,b` and `--x a --x b` are one list."""
    return ",".join(given) if given else None


def _completing(field: Field) -> Callable[..., list[CompletionItem]]:
    """What a shell offers: the field's choices, or the names of its table."""

    def names() -> Iterable[str]:
        if field.choices or not field.known:
            return field.choices
        from tonnage.catalog import NOTHING
        from tonnage.planning.requests.names import NAMES

        return NAMES[field.known].listed(NOTHING)

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in names() if name.startswith(incomplete)]

    return complete
