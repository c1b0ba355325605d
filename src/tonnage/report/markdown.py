"""Blocks as Markdown, for pull requests, chats and assistants."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.report.document import Block, Command, Headline, Meters, Note, Section, Table


def markdown(blocks: Iterable[Block]) -> str:
    """Blocks as Markdown text."""
    return "\n\n".join(_write_blocks(blocks)).replace("\n\n- ", "\n- ") + "\n"


def _write_blocks(blocks: Iterable[Block]) -> list[str]:
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, Table):
            parts += [f"*{_plain(block.title)}*"] if block.title else []
            parts.append(_table(block))
        elif isinstance(block, Section):
            parts += [f"### {_plain(block.title)}", *_write_blocks(block.blocks)]
        elif isinstance(block, Headline):
            parts.append(f"**{_plain(block.text)}**")
        elif isinstance(block, Meters):
            parts += [f"- {_plain(meter.text())}" for meter in block.meters]
        elif isinstance(block, Command):
            parts.append(f"`{block.text.replace('`', '')}`")
        elif isinstance(block, Note):
            parts += [f"_{_plain(block.full)}_"] if block.full else []
        elif block.text:
            parts.append(f"- {_plain(block.text)}")
    return parts


def _table(block: Table) -> str:
    rule = "|".join("---:" if column.number else "---" for column in block.columns)
    heads = tuple(column.head for column in block.columns)
    rows = [f"| {' | '.join(_plain(cell) for cell in row)} |" for row in (heads, *block.rows)]
    return "\n".join([rows[0], f"|{rule}|", *rows[1:]])


def _plain(text: str) -> str:
    """Text that cannot end a cell or begin markup of its own."""
    kept = " ".join(text.split())
    return kept.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
