"""Answers draw themselves in notebooks, which ask whatever they show for `_repr_html_`.

Nouns know nothing of reports, so the method is given to an answer's type from here, the first time one is made through
the Python API.
"""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["drawn"]

Answer = TypeVar("Answer")


def drawn(answer: Answer) -> Answer:
    """The same answer; its type can now show itself as HTML."""
    kind: Any = type(answer)
    if not hasattr(kind, "_repr_html_"):
        kind._repr_html_ = _as_html
    return answer


def _as_html(answer: Any) -> str:
    """The answer as a notebook shows it; without the `plots` extra its tables stand for the pictures."""
    import importlib.util

    from tonnage.report.answers import fragment
    from tonnage.report.html import escape

    if importlib.util.find_spec("vl_convert") is not None:
        return fragment(answer)
    return fragment(answer, picture=lambda chart: f"<p>{escape(chart.title)}</p>")
