"""Answers as HTML: the sentence, cards, pictures with their tables, then the whole report. No script, no request.

The web page and the file that `--plot report.html` writes show the same fragment.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from typing import Final

from tonnage.report.charts.chart import Chart
from tonnage.report.console import Block

__all__ = ["STYLE", "cards", "escape", "figures", "folded", "report", "standalone", "table"]

OPEN_SECTIONS: Final = 3
"""Parts of a report shown at once; the rest opens when asked for."""

STYLE: Final = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#4d5866;--paper:#fbfcfe;--card:#fff;--line:#d5dae2;--mark:#0b5394;
--good:#0b6b46;--bad:#a3260f}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#b3bcc8;--paper:#12171e;--card:#1b222c;--line:#3a4452;
--mark:#8ec5ff;--good:#7fd6ae;--bad:#ff9c85}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:72rem;margin:0 auto;padding:1rem}
h1{font-size:1.3rem;margin:.2rem 0 .6rem}
h2{font-size:1.1rem;margin:1.4rem 0 .4rem}h3{font-size:1rem;margin:1rem 0 .3rem}
a{color:var(--mark)}
.sentence{font-size:1.2rem;font-weight:600;border-left:.4rem solid var(--good);padding:.4rem .8rem;margin:.8rem 0}
.sentence.no{border-color:var(--bad)}
.cards{display:flex;flex-wrap:wrap;gap:.8rem;list-style:none;padding:0;margin:.8rem 0}
.cards li{flex:1 1 13rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.7rem .9rem}
.cards strong{display:block;font-size:1.15rem}.cards span{color:var(--soft)}
.scroll{overflow-x:auto;position:relative}
table{border-collapse:collapse;font-size:.9rem;min-width:24rem}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
figure{margin:1.2rem 0;background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem}
figure img,figure svg{max-width:100%;height:auto;display:block}
figcaption{color:var(--soft);margin-bottom:.5rem}
@media (max-width:50rem){figure img,figure svg{max-width:none;min-width:34rem}}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--mark)}
p,li,figcaption{overflow-wrap:anywhere}
.note{color:var(--soft);font-size:.9rem}
ul.plain{padding-left:1.2rem;margin:.3rem 0}
"""


def _indented(cell: str) -> str:
    """A cell whose leading spaces stay: they say how deep a part lies in a tree."""
    plain = cell.lstrip(" ")
    return "&nbsp;" * (len(cell) - len(plain)) + escape(plain)


def escape(text: object) -> str:
    """Text for HTML, in content and in quoted attributes."""
    return html.escape(str(text), quote=True)


def standalone(body: str, *, title: str) -> str:
    """A whole page that loads nothing."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def cards(items: Iterable[tuple[str, str, str]]) -> str:
    """Name, main figure and what it covers, side by side; nothing for none."""
    inner = "".join(
        f"<li><span>{escape(name)}</span><strong>{escape(figure)}</strong><span>{escape(covers)}</span></li>"
        for name, figure, covers in items
    )
    return f'<ul class="cards">{inner}</ul>' if inner else ""


def figures(charts: Iterable[Chart], *, picture: Callable[[Chart], str] | None = None) -> str:
    """Each chart with its caption and, closed, its table; pictures inline unless the caller points elsewhere."""
    drawn = picture or _inline
    return "".join(
        f'<figure id="chart-{escape(chart.name)}"><figcaption>{escape(chart.says)}</figcaption>'
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(chart.title)}">{drawn(chart)}</div>'
        f"<details><summary>{escape(chart.title)}: the numbers</summary>"
        f"{table(chart.columns, chart.rows, caption=chart.title)}</details></figure>"
        for chart in charts
    )


def report(blocks: Iterable[Block]) -> str:
    """A recorded report: each heading opens a section, the later ones closed until asked for."""
    sections = _sections(blocks)
    return "".join(_section(title, inner, shown=n < OPEN_SECTIONS) for n, (title, inner) in enumerate(sections))


def folded(title: str, content: str, *, shown: bool = False) -> str:
    """HTML below a title that opens and closes it."""
    return f"<details{' open' if shown else ''}><summary><strong>{escape(title)}</strong></summary>{content}</details>"


def table(
    columns: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    *,
    numeric: tuple[bool, ...] = (),
    caption: str = "",
) -> str:
    """A table in a box that scrolls by itself on narrow screens."""
    right = numeric or (False,) * len(columns)
    kinds = [' class="n"' if flush else "" for flush in right]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' if name else f"<td{kind}></td>"
        for name, kind in zip(columns, kinds, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{_indented(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    named = f"<caption hidden>{escape(caption)}</caption>" if caption else ""
    label = escape(caption or "table")
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{label}"><table>{named}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _sections(blocks: Iterable[Block]) -> list[tuple[str, list[str]]]:
    sections: list[tuple[str, list[str]]] = [("", [])]
    for block in blocks:
        if block.kind == "heading":
            sections.append((block.text, []))
        elif block.kind == "table":
            name = sections[-1][0] or "options"
            sections[-1][1].append(table(block.columns, block.rows, numeric=block.numeric, caption=name))
        elif block.text:
            kind = ' class="note"' if block.kind == "note" else ""
            sections[-1][1].append(f"<p{kind}>{escape(block.text)}</p>")
    return [(title, inner) for title, inner in sections if inner]


def _section(title: str, inner: list[str], *, shown: bool) -> str:
    content = "".join(inner)
    return folded(title, content, shown=shown) if title else content


def _inline(chart: Chart) -> str:
    """The drawing itself, for readers without a server; both grounds, chosen by the reader's setting."""
    import base64

    from tonnage.report.charts.svg import svg

    def link(theme: str) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode(svg(chart, theme=theme).encode()).decode()

    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{link("dark")}">'
        f'<img src="{link("light")}" alt="{escape(chart.says)}"></picture>'
    )
