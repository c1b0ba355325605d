"""Which tokens does an engine draft, with what, and how many of them are kept?"""

from __future__ import annotations

from msgspec.structs import replace

from tonnage.catalog.eagle import accepted, eagle_draft
from tonnage.domain.case import ServeCase
from tonnage.domain.layout import Engine
from tonnage.domain.model import Model
from tonnage.errors import BadRequest
from tonnage.simulation.step_parts import Speculation


def with_published_acceptance(engine: Engine) -> Engine:
    """
    The engine with the low end of the acceptance that was published of its draft, for so many drafted tokens.

    As it is where it names no draft, drafts nothing or states an acceptance, or where nothing was published.

    Raises
    ------
    UnknownName
        No such draft is in the catalogue.
    """
    if engine.draft_model is None or not engine.speculative_tokens or engine.speculative_acceptance is not None:
        return engine
    eagle_draft(engine.draft_model)
    found = accepted(engine.draft_model, engine.speculative_tokens)
    return engine if found is None else replace(engine, speculative_acceptance=found.low)


def check_beams(case: ServeCase, *, drafts: bool) -> None:
    """
    Refuse a beam search beside anything whose steps know one hypothesis a request.

    Raises
    ------
    BadRequest
        Fewer than one beam, or several beside drafted tokens, sessions or a request log.
    """
    if case.beams < 1:
        raise BadRequest(f"beams: {case.beams} must be at least 1; 1 searches nothing")
    logged, session = case.traffic.trace is not None, case.sessions is not None
    beside = {"drafted tokens": drafts, "sessions": session, "a trace": logged}
    refused = [what for what, given in beside.items() if given]
    if case.beams > 1 and refused:
        raise BadRequest(f"beams: {case.beams} beams are not modelled with {' or '.join(refused)}; give one of them")


def speculation_of(engine: Engine, model: Model) -> Speculation | None:
    """
    Speculative decoding, which needs the drafted tokens and how often they are accepted; None where none are drafted.

    Raises
    ------
    BadRequest
        The acceptance is missing or no share, or the draft is another model's.
    """
    if not engine.speculative_tokens:
        return None
    if engine.speculative_acceptance is None or not 0.0 <= engine.speculative_acceptance <= 1.0:
        raise BadRequest(
            f"speculative_tokens {engine.speculative_tokens} needs speculative_acceptance, the share of drafted "
            "tokens kept, from 0 to 1; it depends on the text and cannot be guessed"
        )
    drafter = None
    if engine.draft_model is not None:
        draft = eagle_draft(engine.draft_model)
        if draft.hidden_size != model.hidden_size:
            raise BadRequest(
                f"draft_model {draft.id} reads hidden states of width {draft.hidden_size:,}, and {model.id} has "
                f"{model.hidden_size:,}: it drafts for {draft.trained_for}"
            )
        drafter = draft.model
    return Speculation(
        tokens=float(engine.speculative_tokens), acceptance=engine.speculative_acceptance, drafter=drafter
    )
