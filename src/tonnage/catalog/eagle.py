"""
Published EAGLE-3 drafts: one layer trained to draft for one model, and how much of what it drafts is kept.

Shapes stand in data/models/eagle3.csv, acceptance in data/models/eagle3_acceptance.csv: rows of a draft, a task, a
temperature and a depth. A row sets the acceptance of a chain of tokens only if it was measured with one, at a stated
depth, on text that people or models wrote: a tree keeps more of each step at the price of many more verified tokens,
and random tokens, or prompts without the chat template, keep next to none (arXiv 2503.01840; SPEED-Bench, 2604.09557).
"""

from __future__ import annotations

from functools import cache
from typing import Final

from tonnage.catalog.rows import DATA, Row, number, table
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model
from tonnage.errors import BadFact, UnknownName
from tonnage.record import Record

FOLDER: Final = DATA / "models"
TEMPERED: Final = 0.83
"""Of the tokens kept at temperature 0, kept at 1: the least of four drafts, 0.83 to 0.93 (cards of nebius' EAGLE-3 with
KL losses: gpt-oss-120b 2.76 to 2.46, 20b 3.46 to 3.17, Llama-3.3-70B 4.78 to 4.50, Qwen3-235B 4.25 to 3.77). [-]"""
FUSED: Final = 3
"""Layers of the target whose hidden states a draft reads. [-]"""


class EagleDraft(Record, kw_only=True):
    """A published draft: one decoder layer in 16 bits, with a head over the words it may draft."""

    id: str
    targets: tuple[str, ...]
    """Models of the catalogue that it drafts for."""
    trained_for: str
    """The checkpoint whose answers it was trained on."""
    hidden_size: int
    feed_forward: Mlp
    attention: Attention
    vocab_size: int
    source: str

    @property
    def projected(self) -> int:
        """Width of queries, keys and values together. [values]"""
        a = self.attention
        return (a.num_attention_heads + 2 * a.num_key_value_heads) * a.head_dim

    @property
    def model(self) -> Model:
        """
        Its layer and head as a network; the embedding is the target's.

        Queries, keys and values read the embedding beside the hidden state, twice the width of a usual layer, and one
        matrix fuses the hidden states of three layers of the target: both are the layer's further parameters.
        """
        h = self.hidden_size
        layer = LayerGroup(
            count=1,
            mixer=self.attention,
            feed_forward=self.feed_forward,
            extra_parameters=float(h * self.projected + FUSED * h * h),
        )
        return Model(
            id=self.id,
            family="EAGLE-3",
            kind="llm",
            hidden_size=h,
            vocab_size=self.vocab_size,
            layers=(layer,),
            tie_word_embeddings=True,
            native_dtype="bf16",
        )


class Accepted(Record, kw_only=True):
    """Chance that each token of a chain is kept if those before it were, over published tasks, and where from. [-]"""

    tokens: int
    low: float
    high: float
    source: str


def eagle_drafts(model: str) -> tuple[EagleDraft, ...]:
    """
    Drafts published for a model of the catalogue, the one to use first.

    Examples
    --------
    >>> [one.id for one in eagle_drafts("Qwen/Qwen3-8B")]
    ['RedHatAI/Qwen3-8B-speculator.eagle3']
    """
    return tuple(one for one in _drafts().values() if model in one.targets)


def eagle_draft(id: str) -> EagleDraft:
    """
    A draft by its checkpoint's name.

    Raises
    ------
    UnknownName
        No such draft is in the catalogue.
    """
    found = _drafts().get(id)
    if found is None:
        raise UnknownName("draft model", id, known=tuple(_drafts()))
    return found


def accepted(id: str, tokens: int) -> Accepted | None:
    """
    What was published of a draft's acceptance in a chain of so many tokens; None where nothing was, or of fewer tokens.

    `low` is of the task that keeps least, at temperature 1: where no row was measured above 0, accepted tokens are
    multiplied by what other drafts lose by that.

    Examples
    --------
    >>> found = accepted("RedHatAI/gpt-oss-20b-speculator.eagle3", 3)
    >>> (round(found.low, 2), round(found.high, 2)) if found else None
    (0.6, 0.71)
    >>> accepted("RedHatAI/gpt-oss-20b-speculator.eagle3", 9) is None
    True
    """
    rows = [row for row in _acceptance() if row["draft"] == id and _sets(row, tokens)]
    if not rows:
        return None
    lengths = sorted((_length_at(row, tokens), row["source"]) for row in rows)
    warm = any((number(row, "temperature") or 0.0) > 0.0 for row in rows)
    low = lengths[0][0] if warm else 1.0 + TEMPERED * (lengths[0][0] - 1.0)
    return Accepted(
        tokens=tokens,
        low=acceptance_for(low, tokens),
        high=acceptance_for(lengths[-1][0], tokens),
        source=lengths[0][1],
    )


def tokens_gained(acceptance: float, tokens: float) -> float:
    """
    Mean tokens that a step yields where each drafted one is kept with a chance if those before it were.

    Examples
    --------
    >>> tokens_gained(0.5, 3)
    1.875
    """
    a = min(acceptance, 0.999)
    rejected: float = 1.0 - a ** (tokens + 1.0)
    return rejected / (1.0 - a)


def acceptance_for(length: float, tokens: int) -> float:
    """The chance of each token, alike at every position, that yields so many tokens a step; solved by bisection. [-]"""
    if not 1.0 <= length < 1.0 + tokens:
        raise BadFact(f"{tokens} drafted tokens yield 1 to {1 + tokens} tokens a step, not {length:g}")
    low, high = 0.0, 0.999
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if tokens_gained(middle, tokens) < length else (low, middle)
    return (low + high) / 2.0


def _sets(row: Row, tokens: int) -> bool:
    """Whether a row says how much of a chain of so many tokens is kept."""
    depth = number(row, "depth")
    return row["shape"] == "chain" and row["text"] == "real" and depth is not None and depth >= tokens


def _length_at(row: Row, tokens: int) -> float:
    """
    Tokens a step in a chain of fewer tokens than were drafted: by position where they were counted.

    Without counts the chance is taken as alike at every position. It falls with each in every row that counts them, so
    that a short chain keeps more than this says, not less.
    """
    length, depth = number(row, "length"), int(number(row, "depth") or 0)
    if row["per_position"]:
        return 1.0 + sum(float(share) for share in row["per_position"].split(";")[:tokens])
    if length is None:
        raise BadFact(f"eagle3_acceptance.csv: {row['draft']}, {row['task']}: no length")
    return tokens_gained(acceptance_for(length, depth), tokens)


@cache
def _acceptance() -> tuple[Row, ...]:
    return tuple(table(FOLDER / "eagle3_acceptance.csv"))


@cache
def _drafts() -> dict[str, EagleDraft]:
    """The drafts by id; `models` of a row are those that it drafts for, separated by semicolons."""
    found = {}
    for row in table(FOLDER / "eagle3.csv"):
        attention = Attention(
            num_attention_heads=int(row["num_attention_heads"]),
            num_key_value_heads=int(row["num_key_value_heads"]),
            head_dim=int(row["head_dim"]),
        )
        found[row["draft"]] = EagleDraft(
            id=row["draft"],
            targets=tuple(row["models"].split(";")),
            trained_for=row["trained_for"],
            hidden_size=int(row["hidden_size"]),
            feed_forward=Mlp(intermediate_size=int(row["intermediate_size"])),
            attention=attention,
            vocab_size=int(row["draft_vocab_size"]),
            source=row["source"],
        )
    return found
