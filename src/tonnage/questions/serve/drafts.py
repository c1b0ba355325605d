"""What a serving plan may draft, and how many of the drafted tokens are kept: as stated, or as published."""

from __future__ import annotations

from typing import Final

from tonnage.catalog.eagle import accepted, eagle_draft, eagle_drafts
from tonnage.catalog.models import PublishedDraft, eagle_targets, published_draft
from tonnage.domain.model import Model
from tonnage.domain.requests.serve import Serve
from tonnage.errors import BadRequest

DEPTHS: Final = (3,)
"""
Tokens of a chain that plans try of a draft of its own, as engines' recipes and the paper's tables of batches draft.
Chains of one, tried as well, led none of six plans alone and took as long again to look at (log of 2026-11-23).
"""


def drafts_for(request: Serve, model: Model) -> tuple[PublishedDraft, ...]:
    """
    What a plan may draft, and how much of it is kept: as the request states it, or as published of model or draft.

    Raises
    ------
    BadRequest
        The request states an acceptance, and nothing is known that drafts for the model.
    """
    drafts = eagle_drafts(model.id) if model.id in eagle_targets() and not model.mtp_layers else ()
    stated = request.draft_acceptance
    if stated is not None:
        if not model.mtp_layers and not drafts:
            raise BadRequest(
                f"draft_acceptance: {model.id} has no layers of its own to draft with (multi-token prediction), and no "
                "EAGLE-3 draft of it is known; leave it out, and ask `tonnage predict` with speculative_tokens"
            )
        own = drafts[0].id if drafts else None
        tokens, source = request.draft_tokens, "stated in the request"
        return (PublishedDraft(tokens=tokens, low=stated, high=stated, source=source, model=own),)
    if model.mtp_layers:
        published = published_draft(model.id)
        return () if published is None else (published,)
    for draft in drafts:
        found = [known for tokens in DEPTHS if (known := accepted(draft.id, tokens)) is not None]
        if found:
            return tuple(
                PublishedDraft(tokens=one.tokens, low=one.low, high=one.high, source=one.source, model=draft.id)
                for one in found
            )
    return ()


def draft_notes(request: Serve, model: Model, *, drafts: tuple[PublishedDraft, ...]) -> tuple[str, ...]:
    """For whose answers the draft was trained, where that is not the model as asked for."""
    named = drafts[0].model
    if named is None:
        return ()
    trained = eagle_draft(named).trained_for
    if trained in {model.id, request.model}:
        return ()
    return (f"{named} was trained on answers of {trained}: another checkpoint of its shape keeps fewer tokens",)


def drafts_told(drafts: tuple[PublishedDraft, ...]) -> str:
    """What is drafted, and how much of it is kept, from the fewest tokens to the most."""
    first = drafts[0]
    counts = " or ".join(str(one.tokens) for one in drafts)
    ranges = (f"{one.low:.0%}" if one.low == one.high else f"{one.low:.0%} to {one.high:.0%}" for one in drafts)
    kept = " or ".join(dict.fromkeys(ranges))
    planned = " or ".join(dict.fromkeys(f"{one.low:.0%}" for one in drafts))
    by = f" by {first.model}" if first.model else ""
    return (
        f"speculative decoding of {counts} token{'' if counts == '1' else 's'} a step{by}, {kept} of them kept,"
        f" planned at {planned} ({first.source})"
    )
