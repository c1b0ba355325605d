"""`tonnage export`: the files that start a plan on an engine or an orchestrator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import complete_from, on_terminal

if TYPE_CHECKING:
    from tonnage.export.target import Target

__all__ = ["export"]


def _targets() -> list[str]:
    from tonnage import export

    return [export.LIST, export.EVERY, *export.known_targets()]


@click.command()
@click.argument("path", metavar="PLAN.json")
@click.option(
    "--to",
    "target",
    required=True,
    metavar="TARGET",
    shell_complete=complete_from(_targets),
    help="vllm, kubernetes, skypilot, …; `list` says which can start the option and why others cannot (of - all there "
    "are), `all` writes for each that can",
)
@click.option("--option", "--rank", "rank", type=click.IntRange(1), default=1, help="which option to start")
@click.option(
    "--checkpoint", metavar="ID", help="load this Hub checkpoint: the same model in the planned weight format"
)
@click.option("--pools", is_flag=True, help="start the plan's separate prefill and decode workers")
@click.option(
    "--output", "-o", "place", type=click.Path(), help="write the files into this folder, or this archive (start.zip)"
)
@click.option("--force", is_flag=True, help="overwrite files that are there")
@click.option("--additions", "folders", multiple=True, type=click.Path(), help="your own accelerators and offers")
def export(
    path: str,
    target: str,
    rank: int,
    checkpoint: str | None,
    pools: bool,
    place: str | None,
    force: bool,
    folders: tuple[str, ...],
) -> None:
    """Write the files that start one option of a plan (`-` = standard input) on a target."""
    from tonnage import export

    if target == export.LIST and path == "-":
        _list(export.known_targets())
        return
    export.check_target(target)  # an unknown target is told before the plan is read
    from tonnage.catalog import gather
    from tonnage.questions.ask import read_plan
    from tonnage.questions.launchable import launchable_option

    additions = gather(paths=folders)
    plan, option = launchable_option(
        read_plan(path), rank=rank, pools=pools, checkpoint=checkpoint, additions=additions
    )
    if target == export.LIST:
        for line in export.offered(plan, option).told():
            click.echo(line)
        return
    made = export.written(plan, option, to=target)
    if place is None:
        _show(made.files)
        return
    write_into(place, made.files, force=force)
    for line in (f"Start it with: {made.start}", *made.then):
        click.echo(line, err=True)


def _list(targets: dict[str, Target]) -> None:
    """A line a target; a file or pipe also gets its files and the command that uses them."""
    if not on_terminal():
        for name, known in targets.items():
            click.echo(f"{name:<12} {known.title} {known.version}: {', '.join(known.files)}; {known.start}")
        return
    from tonnage.questions.answers import show_document
    from tonnage.report.document import Column, Document, Note, grid

    by_kind: dict[str, list[str]] = {}
    for name, known in targets.items():
        for kind in known.kinds:
            by_kind.setdefault(kind, []).append(f"{name} {known.version}".strip())
    rows = [(kind, ", ".join(names)) for kind, names in by_kind.items()]
    show_document(
        Document(
            (
                grid([Column("plan"), Column("--to, with the release its files are for", wraps=True)], rows),
                Note("The files of one: tonnage export PLAN.json --to NAME [-o FOLDER]. Titles: --to list | cat."),
            )
        )
    )


def _show(files: dict[str, str]) -> None:
    """One file as it is; several with their names between."""
    for name, text in files.items():
        if len(files) > 1:
            click.echo(f"# ---- {name}")
        click.echo(text, nl=False)


def write_into(place: str, texts: Mapping[str, str], *, force: bool) -> None:
    """Each file below the folder, or all in the archive, none in the place of another unless `force`."""
    from tonnage import export
    from tonnage.errors import BadRequest

    if not place:
        raise BadRequest("no folder is named to write into; '.' is this one")
    folder, files = Path(place), {name: text.encode() for name, text in texts.items()}
    if folder.suffix == ".zip":
        folder, files = folder.parent, {folder.name: export.archive(dict(texts))}
    there = [name for name in files if (folder / name).exists()]
    if there and not force:
        raise BadRequest(f"'{folder / there[0]}' exists; give another folder, or --force to overwrite")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
        click.echo(f"wrote {folder / name}", err=True)
