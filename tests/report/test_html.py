"""Reports and pictures as HTML: nothing runs in it, nothing is loaded, nothing is lost."""

import pytest

import tonnage
from tonnage.domain.plan import PlanHeader
from tonnage.errors import BadRequest
from tonnage.questions.answers import (
    charts_of,
    document_of,
    explanation_of,
    fragment,
    show,
    show_document,
)
from tonnage.questions.launchable import launchable_option
from tonnage.questions.registry import KINDS
from tonnage.report.document import Headline, Meter, Meters, Section, Table, Text, grid
from tonnage.report.html import blocks, figures, report, save, standalone, table

NASTY = "<script>alert('x')</script>\"&"


def test_text_is_escaped_everywhere() -> None:
    page = standalone(
        blocks([Meters(meters=(Meter(name=NASTY, value=NASTY, limit=NASTY, interval=NASTY, chance=NASTY, share=0.5),))])
        + table(grid((NASTY,), [(NASTY,)]), caption=NASTY)
        + report([Headline(text=NASTY), Section(title=NASTY, blocks=(Text(text=NASTY),))]),
        title=NASTY,
    )
    assert "<script" not in page and page.count("&lt;script&gt;") >= 7


def test_a_document_prints_nothing_and_holds_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = tonnage.fit("meta-llama/Llama-3.1-8B-Instruct", accelerator="H100", context="8k")
    document = document_of(answer)
    assert capsys.readouterr().out == ""
    stack = next(block for block in document.first if isinstance(block, Table))
    assert all(len(row) == len(stack.columns) for row in stack.rows)
    show(answer, why=True)
    printed = " ".join(capsys.readouterr().out.split())
    for block in document.blocks:
        for text in (getattr(block, "text", ""), getattr(block, "title", "")):
            assert " ".join(text.split()) in printed


def test_a_page_of_pictures_needs_nothing_else(tmp_path) -> None:
    pytest.importorskip("vl_convert")
    answer = tonnage.fit("meta-llama/Llama-3.1-8B-Instruct", accelerator="H100", context="8k")
    charts = charts_of(answer)
    path = tmp_path / "fit.html"
    save(charts, str(path), title="fit")
    page = path.read_text()
    assert page == standalone(figures(charts), title="fit")
    for loads in ("http://", "https://", "<script", "<link"):
        assert loads not in page
    assert "prefers-color-scheme: dark" in page
    for suffix, begins in ((".svg", b"<svg"), (".png", b"\x89PNG")):
        save(charts, str(tmp_path / f"fit{suffix}"))
        assert (tmp_path / f"fit{suffix}").read_bytes().startswith(begins)


@pytest.mark.parametrize("name", ["fit.gif", "nowhere/fit.html"])
def test_a_file_that_cannot_be_drawn_says_why(tmp_path, name: str) -> None:
    pytest.importorskip("vl_convert")
    answer = tonnage.fit("meta-llama/Llama-3.1-8B-Instruct", accelerator="H100", context="8k")
    with pytest.raises(BadRequest, match="--plot"):
        save(charts_of(answer), str(tmp_path / name))


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(BadRequest, match="nothing to draw"):
        save((), "x.svg")


def test_a_plan_as_html_opens_into_where_its_numbers_come_from() -> None:
    plan = tonnage.plan_serve("8B", rate="3/s", traffic="chat", accelerator="H100", quick=True)
    shown, _, opened = fragment(plan, picture=lambda chart: "").partition("Where each number comes from")
    assert "decode steps" in shown or "cache is full" in shown
    for told in (
        "Memory of one accelerator",
        "Capacity of one replica",
        *(part.name for part in plan.options[0].memory.parts),
    ):
        assert told in opened
    none = tonnage.plan_serve("405B", rate="3/s", accelerator="T4", max_accelerators=1, quick=True)
    assert "Where each number comes from" not in fragment(none, picture=lambda chart: "")


def test_every_kind_of_plan_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    plans = [PlanHeader]
    for plan in plans:
        plans += plan.__subclasses__()
    assert {kind.answer for kind in KINDS.values()} == {plan for plan in plans if not plan.__subclasses__()}
    plan = tonnage.plan_serve("8B", rate="3/s", traffic="chat", accelerator="H100", quick=True)
    for rank in (99, 0, -1):
        for ask in (explanation_of, tonnage.explain, launchable_option):
            with pytest.raises(BadRequest, match=f"option {rank}: the plan has 3; choose 1 to 3"):
                ask(plan, rank=rank)
    show_document(explanation_of(plan), why=True)
    assert "Memory of one accelerator" in capsys.readouterr().out
