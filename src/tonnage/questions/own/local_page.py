"""What runs on one machine as a document: models or formats in a table, what starts the first, how it was chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.catalog import model_name
from tonnage.core.quality import quality_kept, quality_text
from tonnage.domain.answer import Quantity
from tonnage.domain.machine import LocalAnswer, LocalRow, Offload
from tonnage.questions.own.beside import beside_document
from tonnage.questions.own.local import no_files, score_cell
from tonnage.questions.own.speed import PROMPT
from tonnage.report.document import UNKNOWN, Command, Document, Headline, Note, Section, Table, blocks, document, grid
from tonnage.units import GB

TOP: Final = 10
"""Rows of the first screen."""


def local_document(answer: LocalAnswer, *, most: int | None = None) -> Document:
    """The answer as blocks; `most` rows in the table, None = as many as a first screen has."""
    if answer.beside:
        return beside_document(answer)
    found = answer.all_rows or answer.rows
    shown = found[: most or TOP]
    one = len(answer.rows) == 1 and not answer.all_rows
    return document(
        Headline(answer.sentence, good=answer.feasible),
        _table(answer.frontier, benchmark="") if one else _table(shown, benchmark=answer.benchmark),
        [_start(row, faster="" if one else _faster(answer.frontier)) for row in answer.rows[:1]],
        map(Note, _evidence(answer, () if one else shown)),
        Note(hint=_rest(answer, len(found), len(shown))),
        why={
            "Prompt tokens/s": [f"{_short(row.model)}: {_interval(row.prompt_per_s)}" for row in shown],
            "Start another format": [Command(row.commands[0][1]) for row in answer.frontier[1:] if row.commands],
            "Quality of the formats": dict.fromkeys(
                text
                for row in answer.frontier
                if row.change
                for text in (quality_text(row.change), *row.change.sources)
            ),
            "Found on this machine": ", ".join(answer.engines),
            "Assumptions": answer.assumed,
            "Notes": answer.notes,
            "Does not fit": [f"{model_name(model)}: {lack}" for model, lack in answer.infeasible],
        },
    )


def _start(best: LocalRow, *, faster: str) -> Section:
    """What starts a model, by engine, and which formats of it are faster."""
    (_, first), *others = best.commands
    commands = [Command(first), *(Command(f"{command}  # {engine}") for engine, command in others)]
    lacking = no_files(best.model) if " -m " in first else ""
    return Section(f"Start {_short(best.model)} in {best.format.upper()}", blocks([*commands, lacking, faster]))


def _faster(frontier: Sequence[LocalRow]) -> str:
    """Formats of the first model that are faster than the chosen one, with what they keep; empty where none is."""
    rows = [row for row in frontier[1:] if row.decode_per_s.value > frontier[0].decode_per_s.value]
    rates = ", ".join(f"{row.format.upper()} {_three(row.decode_per_s.value)}" for row in rows)
    kept = ", ".join(quality_kept(row.change) for row in rows).replace(", perplexity", ",")
    return f"Faster: {rates} tokens/s ({kept})" if rows else ""


def _table(rows: Iterable[LocalRow], *, benchmark: str) -> Table:
    """
    Models of one machine, a row each, for one request, with their scores in these formats; without a benchmark formats
    of one model.
    """
    first = ("model", "format", f"{benchmark}>2") if benchmark else ("format", "quality")
    cells = [
        (
            *(
                (_short(row.model), row.format.upper(), score_cell(row) or UNKNOWN)
                if benchmark
                else (row.format.upper(), quality_kept(row.change))
            ),
            f"{row.memory_bytes / GB:.1f}",
            _interval(row.decode_per_s),
            _three(row.prompt_per_s.value) if benchmark else _interval(row.prompt_per_s),
            _tokens(row.most_context),
            _describe_offload(row.offload),
        )
        for row in rows
    ]
    return grid((*first, "GB>3", "tokens/s>", "prompt tok/s>4", "context>1", "in host memory<5"), cells)


def _short(model: str) -> str:
    """A model's name without the words that all files of people's own machines share."""
    return model_name(model).removesuffix(" Instruct").removesuffix(" it").removesuffix(" Base")


def _three(value: float) -> str:
    """At most three digits that mean something."""
    return f"{value:.2g}" if value < 10 else f"{value:.0f}" if value < 1000 else f"{round(value, -2):,.0f}"


def _interval(found: Quantity) -> str:
    low, high = found.low or found.value, found.high or found.value
    return f"{_three(found.value)} ({_three(low)}-{_three(high)})"


def _evidence(answer: LocalAnswer, shown: Sequence[LocalRow]) -> list[str]:
    """What figures of a named model's formats and the scores shown are, and how rates are founded."""
    rows = answer.rows
    if not rows:
        return []
    bases = " and ".join(dict.fromkeys(row.decode_per_s.basis.value for row in rows))
    sure = all(row.decode_per_s.certified for row in rows)
    share = "90 % of measurements of such cases" if sure else "what too few sources taught to be certifiable as 90 %"
    deep, first = answer.behind_per_s, rows[0]
    full = f", {first.format.upper()} {_three(deep)} tokens/s behind {first.context:,}" if deep is not None else ""
    how = f"Rates of {first.engine}, one request behind {PROMPT:,} tokens{full}: {bases}; in brackets {share}."
    if any(row.stands and row.stands.beside for row in shown):
        how += " >: at least, by another score."
    if any(row.stands is None for row in shown):
        how += f" {UNKNOWN}: no score."
    told = dict.fromkeys(row.change.on for row in answer.frontier if row.change and row.change.evaluations)
    of = " and ".join(told)
    return [
        *([f"Quality: medians of published evaluations of {of}, against 16 bits."] if of and len(rows) == 1 else []),
        how,
    ]


def _tokens(count: int) -> str:
    return f"{count // (1024 if count % 1000 else 1000)}k" if count >= 1000 else str(count)


def _describe_offload(offload: Offload) -> str:
    """What of a model lies in host memory; empty where nothing does."""
    if not offload.moved_bytes:
        return ""
    if offload.read_share >= 1.0:
        return "all"
    what = ["experts"] * bool(offload.expert_layers) + ["layers"] * bool(offload.layers)
    return f"{offload.moved_bytes / GB:.0f} GB {', '.join(what)}"


def _rest(answer: LocalAnswer, count: int, top: int) -> str:
    said = [f"{count - top} more models: --top {count}"] if count > top else []
    lacking = len(answer.infeasible)
    if lacking:
        said.append(f"{lacking} {'does' if lacking == 1 else 'do'} not fit")
    if not answer.all_rows and len(answer.rows) > 1:
        said += ["start another: --model NAME", "every format: --all"]
    said.append("the rest: --why")
    return "; ".join(said) + "."
