"""Reports as Markdown: what a terminal would show, for pull requests, chats and assistants."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.report.console import Block

__all__ = ["markdown"]


def markdown(blocks: Iterable[Block]) -> str:
    """A recorded report as Markdown text; the first heading is the answer's sentence."""
    told: list[str] = []
    for block in blocks:
        if block.kind == "table":
            told.append(_table(block))
        elif block.kind == "heading":
            told.append(f"**{_plain(block.text)}**" if not told else f"### {_plain(block.text)}")
        elif block.text:
            told.append(f"_{_plain(block.text)}_" if block.kind == "note" else f"- {_plain(block.text)}")
    return "\n\n".join(told).replace("\n\n- ", "\n- ") + "\n"


def _table(block: Block) -> str:
    rule = "|".join("---:" if flush else "---" for flush in block.numeric)
    rows = [f"| {' | '.join(_plain(cell) for cell in row)} |" for row in (block.columns, *block.rows)]
    return "\n".join([rows[0], f"|{rule}|", *rows[1:]])


def _plain(text: str) -> str:
    """Text that cannot end a cell or begin markup of its own."""
    kept = " ".join(text.split())
    return kept.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
