"""
The drawing of layers in docs/architecture.md, made from the imports: `python -m tools.architecture [--write]`.

An arrow that a longer way already says is left out, so that what remains can be read; import-linter holds the rest.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import grimp

PAGE: Final = Path(__file__).parents[1] / "docs/architecture.md"
START, END = "<!-- drawing: `python -m tools.architecture --write` -->\n", "<!-- end of the drawing -->\n"
LAYERS: Final = (
    "cli", "web", "sweep", "adopt", "export", "measure", "questions", "report", "core", "optimize", "simulation",
    "physics", "pricing", "engines", "catalog", "data", "domain",
)  # fmt: skip
"""From the faces down to what is said; modules beside these folders are imported by all."""


def imports() -> dict[str, set[str]]:
    """Layer -> the layers that it imports."""
    graph = grimp.build_graph("tonnage", cache_dir=None)
    found: dict[str, set[str]] = {layer: set() for layer in LAYERS}
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            ends = [module.split(".")[1] for module in (importer, imported) if "." in module]
            if len(ends) == 2 and ends[0] != ends[1] and set(ends) <= set(LAYERS):
                found[ends[0]].add(ends[1])
    return found


def drawing(found: dict[str, set[str]]) -> str:
    """A Mermaid flowchart of the arrows that no longer way says."""

    def below(layer: str) -> set[str]:
        return found[layer].union(*map(below, found[layer])) if found[layer] else set()

    lines = []
    for layer in LAYERS:
        direct = found[layer] - set().union(*map(below, found[layer]))
        lines += [f"  {layer} --> {other}" for other in sorted(direct, key=LAYERS.index)]
    return "\n".join(("```mermaid", "flowchart TD", *lines, "```", ""))


def page(text: str) -> str:
    """The page with the drawing of today."""
    before, _, rest = text.partition(START)
    return before + START + drawing(imports()) + END + rest.partition(END)[2]


if __name__ == "__main__":
    made = page(PAGE.read_text(encoding="utf-8"))
    if "--write" in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
    else:
        print(made)
