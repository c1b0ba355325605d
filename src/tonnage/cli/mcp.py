"""`tonnage mcp`: the planner as tools for assistants."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import click

from tonnage.cli.options import additions_option, limit_options, limits_of
from tonnage.errors import BadRequest


@click.command()
@click.option("--online", is_flag=True, help="let questions look up models on the Hugging Face hub")
@additions_option
@limit_options
def mcp(*, online: bool, folders: tuple[str, ...], **options: Any) -> None:
    """
    Answer the Model Context Protocol on standard input and output.

    \b
    An assistant's settings name it so:
    {"mcpServers": {"tonnage": {"command": "tonnage", "args": ["mcp"]}}}
    """
    if importlib.util.find_spec("mcp") is None:
        raise BadRequest("tools for assistants need the 'mcp' extra: pip install 'tonnage[mcp]'")
    from tonnage.catalog import gather, offers
    from tonnage.web.tools import serve

    if not online:
        os.environ["TONNAGE_OFFLINE"] = "1"
    additions = gather(paths=folders)
    offers(additions=additions)  # a file that is not there or cannot be read is said now, not in each answer
    serve(additions=additions, limits=limits_of(options))
