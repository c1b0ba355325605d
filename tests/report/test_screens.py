"""The first screen of every example: 24 lines of 100 columns, the model named; on every face the same."""

import html as escaping
import io
import re
from contextlib import redirect_stdout
from itertools import pairwise
from typing import Any, get_args

import pytest
from msgspec.structs import replace
from tests.report.examples import answered, names, question, texts_of
from tests.style.test_glossary import hits

import tonnage
from tonnage.catalog import model_name, part_name, product
from tonnage.catalog.spreads import chance_within
from tonnage.core.error_model import ErrorModel
from tonnage.domain.answer import Quantity
from tonnage.domain.plan import Choice, ChoiceName, Rejection
from tonnage.domain.refusal import refusal
from tonnage.questions.answers import document_of, fragment, show
from tonnage.report.document import Document, Headline, Table
from tonnage.report.html import markdown
from tonnage.report.screen import LABELS, Pick, Ranking, left_out, picks, rows_shown
from tonnage.report.terminal import print_blocks
from tonnage.report.wording import chance, limits, money, span
from tonnage.web.view import CHOICES

LINES, COLUMNS = 24, 100
ID = re.compile(r"(?<![\w/.-])(?:h100-sxm5-80gb|b200-sxm-180gb|h200-sxm-141gb|a100-sxm4-80gb|rtx-4090)(?![\w/-])")
INTERVAL = re.compile(r"\d[^()]* \(\D?[\d.,]+ ?[a-zµA-Z/$]*-")


def printed(document: Document, *, width: int = COLUMNS, why: bool = False) -> list[str]:
    out = io.StringIO()
    with redirect_stdout(out):
        print_blocks(document.blocks if why else document.first, width=width)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("name", names())
def test_a_first_screen_holds_the_answer(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    show(answered(name), question=question(name))
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert len(lines) <= LINES and max(map(len, map(str.rstrip, lines))) <= COLUMNS, text
    assert not ID.search(text) and "\x1b" not in text
    assert "--why" in text
    plan = answered(name)
    request = getattr(plan, "request", None)
    if getattr(request, "model", None):
        assert " ".join(text.split()).startswith(model_name(request.model))
    elif hasattr(request, "workloads"):
        for workload in request.workloads:
            if workload.serve is not None:
                assert model_name(workload.serve.model) in " ".join(text.split())


def test_averages_over_prompts_of_very_different_lengths_are_no_promise_of_their_tail() -> None:
    asked = {"model": "Qwen/Qwen3-32B", "rate": "1/s", "traffic": "rag", "accelerator": "B300", "quick": True}
    asked["precision"] = "nvfp4"
    near, far = (tonnage.plan_serve(**asked, ttft=limit, tpot="60 ms") for limit in ("2 s", "30 s"))
    told = [" ".join(printed(document_of(plan))) for plan in (near, far)]
    assert "one prompt in twenty has 48,904 tokens or more" in told[0] and "one prompt in twenty" not in told[1]


def test_every_option_is_told_from_its_neighbours_in_a_narrow_window() -> None:
    asked = {"rate": "10/s", "traffic": "chat", "ttft": "2 s", "tpot": "40 ms", "quick": True}
    plan = tonnage.plan_serve("Qwen/Qwen3-235B-A22B", accelerator="B200,RTX PRO 6000", **asked)
    text = " ".join(printed(document_of(plan, every=True)))
    layouts = {f"{one.replicas}xTP{one.configuration.layout.tp}" for one in plan.options}
    assert len(layouts) > 2 and all(layout in text for layout in layouts)


def test_memory_that_may_not_hold_is_a_risk_of_the_run() -> None:
    asked = {"steps": 200, "prompts_per_step": 64, "responses_per_prompt": 8, "accelerator": "H100", "count": 8}
    large, small = (tonnage.plan_rl(f"Qwen/Qwen3-{size}", **asked, response_tokens=2000) for size in ("32B", "0.6B"))
    told = [" ".join(printed(document_of(plan))) for plan in (large, small)]
    assert "Risk: memory holds with a chance of" in told[0] and "memory holds with" not in told[1]


@pytest.mark.parametrize("name", names())
def test_every_face_says_the_same(name: str) -> None:
    answer = answered(name)
    document = document_of(answer)
    texts = {" ".join(text.split()) for text in texts_of(document)}
    old_words = [f"{hit} in '{text}'" for text in texts for hit in hits(text)]
    assert not old_words, "\n" + "\n".join(old_words)
    in_markdown = " ".join(markdown(document.blocks).replace("\\|", "|").replace("&lt;", "<").split())
    page = fragment(answer, picture=lambda chart: "")
    in_html = " ".join(escaping.unescape(re.sub("<[^>]*>", " ", page)).replace("\xa0", " ").split())
    for text in texts:
        assert text in in_markdown or "\\" in in_markdown, text
        # The page says the sentence above all, and leaves out the section that would repeat it.
        assert text in in_html or text == "Answer", text
    narrow = "".join("".join(printed(document, width=400, why=True)).split())
    lost = [text for text in texts if "".join(text.split()) not in narrow]
    assert not [text for text in lost if len(text) < 60], "a cell or a line is not printed at full width"


@pytest.mark.parametrize("name", ["chat-70b", "nightly-batch", "pretrain-8b", "embed-texts", "rent-or-buy"])
@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_narrow_terminals_keep_interval_and_evidence(name: str, width: int) -> None:
    lines = printed(document_of(answered(name)), width=width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert INTERVAL.search(text), text
    if name != "rent-or-buy":
        assert "evidence" in text and ("calibrated" in text or "derived" in text)


def test_what_gives_way_gives_way_in_order() -> None:
    document = document_of(answered("chat-70b"))
    heads = [
        {
            head
            for head in ("region", "req/s", "provider", "layout", "meets", "$/h", "evidence")
            if any(head in line.split() for line in printed(document, width=width) if "accelerators" in line)
        }
        for width in (170, 120, 100, 70)
    ]
    assert all(later <= earlier for earlier, later in pairwise(heads))
    assert {"$/h", "evidence"} <= heads[-1] and "region" in heads[0]


class Option:
    """What a table compares."""

    def __init__(self, price: float, speed: float) -> None:
        self.price, self.speed = price, speed


class Plan:
    def __init__(self, *options: Option, choices: tuple[Choice, ...] = ()) -> None:
        self.options, self.choices = options, choices


BY = Ranking(price=lambda o: o.price, speed=lambda o: o.speed)


def test_choices_of_the_plan_are_named() -> None:
    given = (Choice(name="cheapest", option=0), Choice(name="resilient", option=1))
    plan = Plan(Option(1, 1), Option(2, 2), choices=given)
    assert picks(plan) == [Pick("cheapest", 0), Pick("N+1 spare", 1)]
    assert rows_shown(plan, BY, top=None) == picks(plan)
    assert rows_shown(plan, BY, top=1) == [Pick("cheapest", 0)]


def test_counts_of_what_is_ruled_out_add_up() -> None:
    limits = ("memory", "memory", "vendor", "budget", "deadline", "community", "checkpoint")
    note = left_out([Rejection(what="x", verdict=refusal(limit, "no")) for limit in limits]).text
    counts = [int(number) for number in re.findall(r"\d+", note)]
    assert counts[0] == len(limits) == sum(counts[1:]) and "3 for other reasons)" in note
    assert "other reasons" not in left_out([Rejection(what="x", verdict=refusal("memory", "no"))]).text


def test_every_label_of_a_choice_is_spelled_out_on_the_page() -> None:
    assert set(CHOICES) == {LABELS.get(name, name) for name in get_args(ChoiceName)}
    assert max(map(len, CHOICES.keys() - {"recommended"})) <= 9  # a screen of 80 columns has no room for more


def test_a_table_has_five_rows_none_dominated_nor_three_times_the_price_unless_asked_for() -> None:
    options = [Option(10 + n, 20 - n) for n in range(12)] + [Option(11, 30), Option(31, 0.5)]
    plan = Plan(*options)
    shown = [pick.place for pick in rows_shown(plan, BY, top=None)]
    assert len(shown) == 5 and 12 not in shown and 13 not in shown
    assert len(rows_shown(plan, BY, top=7)) == 7
    assert len(rows_shown(plan, BY, top=99)) == len(options)


def test_a_chance_is_that_of_the_error_model() -> None:
    errors = ErrorModel(kind="serve", level="known-host:steady:dense:calibrated:vllm")
    for limit in (0.02, 0.03, 0.045):
        quantity = errors.quantity("tpot_s", 0.03, unit="s", basis="calibrated")  # type: ignore[arg-type]
        assert chance(quantity, limit) == pytest.approx(chance_within(quantity, limit))
    assert chance(Quantity(value=1.0, unit="s"), 2.0) is None


def test_without_objectives_there_is_a_frontier_and_no_single_winner() -> None:
    asked = {"rate": "3/s", "traffic": "chat", "quick": True, "accelerator": "H100,L40S,L4"}
    plan = tonnage.plan_serve("meta-llama/Llama-3.1-8B-Instruct", **asked)
    text = " ".join(printed(document_of(plan)))
    assert "no objectives" in text and "frontier" in text and "--ttft" in text
    table = next(block for block in document_of(plan).first if isinstance(block, Table))
    assert len(table.rows) >= min(2, len(plan.frontier))


def test_ranges_say_their_unit_once_and_names_are_those_of_people() -> None:
    assert span(0.352, 8.7, unit="s") == "352 ms-8.7 s" and span(0.2, 0.7, unit="s") == "200-700 ms"
    assert span(0.65, 14.0, unit="1/s") == "0.65-14/s" and span(3.35, 4.95, unit="USD/h") == "$3.35-4.95/h"
    assert span(16.36, 32.72, unit="USD/h") == "$16.36-32.72/h"
    assert limits(Quantity(value=418.0, unit="USD", low=418.0, high=760.0)) == "$418-760", (
        "no value beside its interval"
    )
    assert limits(Quantity(value=418.0, unit="USD", low=234.0, high=762.0)) == "$230-760"
    assert [money(value) for value in (417.54, 1118.2, 2_345_678, 0.58)] == ["$418", "$1,120", "$2.35M", "$0.58"]
    assert model_name("ultralytics/yolov8m") == "YOLOv8m" and model_name("meta-llama/Llama-2-13b-hf") == "Llama 2 13B"
    assert product("b200-sxm-180gb") == "NVIDIA B200 180 GB" and part_name("rtx-4090") == "RTX 4090 24 GB"
    assert product("a part of my own") == "a part of my own"


def test_what_cannot_be_done_is_counted_by_reason() -> None:
    plan = tonnage.plan_serve(
        "meta-llama/Llama-3.1-70B-Instruct",
        rate="4/s",
        traffic="chat",
        tpot="0.1 ms",
        quick=True,
        accelerator="H100,A100,L4",
    )
    document = document_of(plan)
    lines = printed(document)
    table = next(block for block in document.first if isinstance(block, Table))
    assert not plan.feasible and any(isinstance(block, Headline) and not block.good for block in document.first)
    assert len(lines) <= LINES and len(table.rows) <= 4
    assert sum(int(row[1]) for row in table.rows) <= len(plan.rejected)
    assert f"{len(plan.rejected)} configurations ruled out" in " ".join(" ".join(lines).split())


def test_all_options_are_shown_when_asked_for() -> None:
    plan = answered("embed-texts")
    table = next(block for block in document_of(plan, every=True).first if isinstance(block, Table))
    assert len(table.rows) == len(plan.options)
    assert "more option" not in left_out((), hidden=0).full


def test_an_old_price_says_its_age_once() -> None:
    text = " ".join(printed(document_of(answered("chat-70b"))))
    assert text.count("weeks old") == 1 and "*" not in text


@pytest.mark.parametrize("name", names())
def test_an_old_price_that_wins_is_said_on_the_first_screen(name: str) -> None:
    plan = answered(name)
    options = getattr(plan, "options", ())
    bill = getattr(options[0], "bill", None) if options else None
    said = "check it before you count on it" in " ".join(" ".join(printed(document_of(plan))).split())
    assert said or bill is None or not bill.stale or bill.trust != "primary"


def test_what_a_fine_tune_takes_as_given_stands_in_its_first_line() -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B", "examples": "10k", "accelerator": "L40S"}
    lines = {
        how: " ".join(printed(document_of(tonnage.plan_finetune(**asked, **dict(more)))))
        for how, more in {
            "LoRA r=16 · 10,000 examples, 1 epoch · sequences of 2,048": {"tokens_per_example": "900"},
            "LoRA r=8 · 10,000 examples, 3 epochs": {"tokens_per_example": "900", "lora_rank": "8", "epochs": "3"},
            "10,000 examples, 1 epoch · 4,000 tokens each": {"tokens_per_example": "4000"},
        }.items()
    }
    assert all(how in text for how, text in lines.items()), lines


def test_every_kind_of_answer_has_a_document() -> None:
    assert all(document_of(answered(name)).first for name in names())
    best = answered("chat-70b")
    assert document_of(replace(best, options=best.options[:1], choices=best.choices[:1])).first


def test_a_lifecycle_names_the_choices_of_both_halves() -> None:
    plan = answered("lifecycle-13b")
    table = next(block for block in document_of(plan).first if isinstance(block, Table))
    train, serve = (
        [LABELS.get(choice.name, choice.name) for choice in half.choices[1:]] for half in (plan.make, plan.serve)
    )
    assert [row[0].strip() for row in table.rows] == ["train", *train, "serve", *serve] and train and serve
