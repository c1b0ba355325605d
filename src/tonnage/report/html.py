"""
Blocks as Markdown and as HTML with their pictures; charts as files. No script, no request.

The web page and the file that `--plot report.html` writes show the same fragment.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from tonnage.errors import BadRequest, echo
from tonnage.report.charts.chart import Chart, renderer, specification
from tonnage.report.document import Block, Command, Headline, Meter, Meters, Note, Section, Table, grid
from tonnage.units import percent


def markdown(blocks: Iterable[Block]) -> str:
    """Blocks as Markdown text."""
    return "\n\n".join(_write_blocks(blocks)).replace("\n\n- ", "\n- ") + "\n"


def _write_blocks(blocks: Iterable[Block]) -> list[str]:
    """Blocks as parts of a Markdown text; those below a section follow its heading."""
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, Table):
            parts += [f"*{_plain(block.title)}*"] if block.title else []
            parts.append(_table(block))
        elif isinstance(block, Section):
            parts += [f"### {_plain(block.title)}", *_write_blocks(block.blocks)]
        elif isinstance(block, Headline):
            parts.append(f"**{_plain(block.line)}**")
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


MOST_COLUMNS: Final = 4
"""Of a table that fits a narrow screen."""
OPEN_SECTIONS: Final = 3
"""Parts of a report shown at once; the rest opens when asked for."""

STYLE: Final = """
:root{color-scheme:light dark;--paper:light-dark(#f5f7f7,#0e1416);--card:light-dark(#fff,#151d20);
--bed:light-dark(#eaefef,#1f2a2e);--line:light-dark(#d6dedf,#2b373c);--edge:light-dark(#788789,#71828a);
--ink:light-dark(#12201f,#e8eeee);--soft:light-dark(#475957,#b2c0c1);--mark:light-dark(#0b5c66,#66c9d2);
--mark-strong:light-dark(#08474f,#8fdbe1);--mark-soft:light-dark(#dfeff0,#12343a);--on-mark:light-dark(#fff,#06252a);
--data:light-dark(#5a9fa7,#3d8f99);--limit:light-dark(#ad3210,#ff9670);--limit-soft:light-dark(#fbeae4,#2d1b16);
--good:light-dark(#0b6b46,#7fd6ae);--bad:light-dark(#a3260f,#ff9c85)}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",Arial,sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:72rem;margin:0 auto;padding:1rem}
h1{font-size:1.3rem;margin:.2rem 0 .6rem}
h2{font-size:1.1rem;margin:1.4rem 0 .4rem}h3{font-size:1rem;margin:1rem 0 .3rem}
a{color:var(--mark)}
.sentence{font-size:1.2rem;font-weight:600;border-left:.4rem solid var(--good);padding:.4rem .8rem;margin:.8rem 0}
.sentence.no{border-color:var(--bad)}
.headline{font-weight:600;margin:.6rem 0}.headline.no{color:var(--bad)}
.meters{display:flex;flex-wrap:wrap;gap:.8rem;list-style:none;padding:0;margin:.8rem 0}
.meters li{flex:1 1 13rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.7rem .9rem}
.meters strong{display:block;font-size:1.15rem}.meters span{color:var(--soft)}.meters meter{width:100%}
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


def _indent(cell: str) -> str:
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


def scoped(body: str) -> str:
    """A part of somebody else's page, such as a notebook's: it brings its style, which touches nothing around it."""
    style = STYLE.replace(":root{", ":scope{").replace("body{", ":scope{")
    return f'<div class="tonnage"><style>@scope (.tonnage){{{style}}}</style>{body}</div>'


def blocks(given: Iterable[Block], *, without: str = "") -> str:
    """Blocks one below the other; a text that equals `without` is said elsewhere."""
    return "".join(_block(block) for block in given if getattr(block, "text", "") != without or not without)


def _block(block: Block) -> str:
    """One block as HTML."""
    if isinstance(block, Headline):
        return f'<p class="headline{"" if block.good else " no"}">{escape(block.line)}</p>'
    if isinstance(block, Meters):
        return f'<ul class="meters">{"".join(map(_meter, block.meters))}</ul>'
    if isinstance(block, Table):
        title = f"<p><strong>{escape(block.title)}</strong></p>" if block.title else ""
        return title + table(block, caption=block.title or "options")
    if isinstance(block, Section):
        return f"<h2>{escape(block.title)}</h2>{blocks(block.blocks)}"
    if isinstance(block, Command):
        return f"<p><code>{escape(block.text)}</code></p>"
    if isinstance(block, Note):
        return f'<p class="note">{escape(block.full)}</p>'
    return f"<p>{escape(block.text)}</p>"


def _meter(meter: Meter) -> str:
    """A number against its limit; the bar is drawn where there is one."""
    bar = ""
    if meter.share is not None:
        label = escape(f"{meter.name}: {percent(meter.share)} of the limit")
        bar = f'<meter min="0" max="1" high="0.95" value="{min(1.0, meter.share):.3f}" aria-label="{label}"></meter>'
    limit = f" of {escape(meter.limit)}" if meter.limit else ""
    beside = ", ".join(filter(None, (meter.interval, f"{meter.chance} sure" if meter.chance else "")))
    return (
        f"<li><span>{escape(meter.name)}</span><strong>{escape(meter.said)}{limit}</strong>{bar}"
        f"<span>{escape(beside)}</span></li>"
    )


def figures(charts: Iterable[Chart], *, picture: Callable[[Chart], str] | None = None) -> str:
    """Each chart with its caption and, closed, its table; pictures inline unless the caller points elsewhere."""
    drawn = picture or _inline
    return "".join(
        f'<figure id="chart-{escape(chart.name)}">'
        f"<figcaption><b>{escape(chart.title)}</b> {escape(chart.says)}</figcaption>"
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(chart.title)}">{drawn(chart)}</div>'
        f"<details><summary>{escape(chart.title)}: the numbers</summary>"
        f"{table(grid(chart.columns, chart.rows), caption=chart.title)}</details></figure>"
        for chart in charts
    )


def report(given: Iterable[Block], *, without: str = "") -> str:
    """The reasons: each section opens and closes, the first ones shown; a text that equals `without` is left out."""
    parts: list[str] = []
    count = 0
    for block in given:
        if not isinstance(block, Section):
            parts.append(blocks([block], without=without))
            continue
        inner = blocks(block.blocks, without=without)
        if inner:
            parts.append(folding_section(block.title, inner, shown=count < OPEN_SECTIONS))
            count += 1
    return "".join(parts)


def folding_section(title: str, content: str, *, shown: bool = False) -> str:
    """HTML below a title that opens and closes it."""
    return f"<details{' open' if shown else ''}><summary><strong>{escape(title)}</strong></summary>{content}</details>"


def table(given: Table, *, caption: str) -> str:
    """A table in a box that scrolls by itself on narrow screens; columns without a word are left out."""
    lines = given.rows
    shown = [place for place in range(len(given.columns)) if not lines or any(line[place].strip() for line in lines)]
    columns = [given.columns[place] for place in shown]
    kinds = [' class="n"' if column.number else "" for column in columns]
    # On a narrow screen a row of many columns becomes a card, whose fields say what they are.
    many = len(columns) > MOST_COLUMNS
    labels = [f' data-label="{escape(column.head)}"' if many else "" for column in columns]
    head = "".join(
        f'<th scope="col"{kind}>{escape(column.head)}</th>' if column.head else f"<td{kind}></td>"
        for column, kind in zip(columns, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}{label}>{_indent(line[place])}</td>"
            for place, kind, label in zip(shown, kinds, labels, strict=True)
        )
        + "</tr>"
        for line in lines
    )
    named = f"<table{' class=cards' if many else ''}><caption hidden>{escape(caption)}</caption>"
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(caption)}">{named}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _inline(chart: Chart) -> str:
    """The drawing itself, for readers without a server; both grounds, chosen by the reader's setting."""
    import base64

    from tonnage.report.charts.chart import svg

    def link(theme: str) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode(svg(chart, theme=theme).encode()).decode()

    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{link("dark")}">'
        f'<img src="{link("light")}" alt="{escape(chart.says)}"></picture>'
    )


SUFFIXES: Final = (".svg", ".png", ".html")


def check_path(path: str) -> None:
    """
    Refuse a file that could not be drawn later, before a long calculation is wasted on it.

    Raises
    ------
    BadRequest
        Another suffix, or the `plots` extra missing.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise BadRequest(f"--plot: '{echo(path)}' must end in {', '.join(SUFFIXES)}")
    if suffix != ".html":
        renderer()


def save(charts: tuple[Chart, ...], path: str, *, title: str = "Tonnage", page: str = "") -> None:
    """
    Write the charts to a file, by its suffix.

    Parameters
    ----------
    charts : tuple of Chart
        SVG and PNG hold one picture: all charts below each other.
    path : str
        Ends in .svg, .png or .html.
    title : str
        Of the HTML page.
    page : str
        The HTML body around the charts when the page tells more than they do; empty = the charts alone.

    Raises
    ------
    BadRequest
        Another suffix, nothing to draw, the `plots` extra missing, or the file cannot be written.
    """
    check_path(path)
    suffix = Path(path).suffix.lower()
    if not charts and not page:
        raise BadRequest("--plot: this answer has nothing to draw; its sentence says why")
    if suffix == ".html":
        content: bytes = standalone(page or figures(charts), title=title).encode()
    else:
        together = _below_each_other(charts)
        drawn = renderer().vegalite_to_svg(together) if suffix == ".svg" else None
        content = drawn.encode() if drawn is not None else renderer().vegalite_to_png(together, scale=2)
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise BadRequest(f"--plot: '{echo(path)}' cannot be written: {(error.strerror or 'unknown').lower()}") from None


def _below_each_other(charts: tuple[Chart, ...]) -> dict[str, Any]:
    """All charts in one document, on white: a file is looked at on any ground."""
    documents = [specification(chart) for chart in charts]
    shared = {"$schema": documents[0]["$schema"], "config": {**documents[0]["config"], "background": "white"}}
    inner = [
        {key: value for key, value in document.items() if key not in ("$schema", "config")} for document in documents
    ]
    if len(inner) == 1:
        return {**shared, **inner[0]}
    # Parameters of one picture among several are not seen by its own layers: they belong to the whole document.
    known = {one["name"]: one for document in inner for one in document.pop("params", ())}
    shared |= {"params": list(known.values())} if known else {}
    return {**shared, "vconcat": inner, "resolve": {"scale": {"color": "independent"}}}
