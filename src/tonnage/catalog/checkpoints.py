"""
Which checkpoints are published of a model in another weight format than its own, and which engines read them?

One row a checkpoint in `data/models/checkpoints.csv`: the model whose weights it holds, tuning and version included,
its format, and the engines that were seen to start it, with the first release where one is said. An empty licence,
date or size was not read. Of several, the first that the engine reads is taken: tables of the engines' own tests come
first.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from tonnage.catalog.hub.names import MAX_NAME_LENGTH, parse_name, tuning
from tonnage.catalog.rows import DATA, read_rows
from tonnage.record import Record

_FOUR_BITS = {"int4": ("int4", "awq", "gptq")}
"""Four bits in groups of 128 are one format to load, however they were found."""


CHAT: Final = frozenset({"instruct", "it", "chat"})
"""Words for a tuning that answers a chat."""


class Checkpoint(Record, kw_only=True):
    """One published checkpoint."""

    checkpoint: str
    """Its id on the Hugging Face Hub."""
    model: str
    """Id of the model that it was made of."""
    format: str
    engines: str
    """Those that read it, each with its first release where that is known: vllm>=0.12.0;trtllm."""
    source: str
    checked: str
    """Day on which the source was read."""
    licence: str = ""
    released: str = ""
    """Month."""
    gb: float | None = None
    """Size of its weights, as the list of its files states it. [GB]"""

    @property
    def readers(self) -> dict[str, str]:
        """Engine -> first release that reads it; empty = not said."""
        return {name: since for name, _, since in (one.partition(">=") for one in self.engines.split(";"))}

    @property
    def terms(self) -> str:
        """Its size, where that was read, and its licence."""
        licence = f"licence: {self.licence or 'see its card'}"
        return f"{self.gb:.3g} GB, {licence}" if self.gb else licence

    def told(self, engine: str) -> str:
        """What a reader has to know before it is loaded by that engine."""
        since = self.readers[engine]
        stated = (
            f"{self.format} by {self.checkpoint.partition('/')[0]}",
            f"published {self.released}" if self.released else "",
            self.terms,
            f"read by {engine} {since} and later" if since else f"read by {engine}",
        )
        return f"{self.checkpoint} ({', '.join(filter(None, stated))})"


@cache
def checkpoints() -> tuple[Checkpoint, ...]:
    """Every known one, in the order of the table."""
    path = DATA / "models" / "checkpoints.csv"
    return read_rows(path, Checkpoint) if path.is_file() else ()  # a release of the data may be older than this table


@cache
def formats_by_id() -> dict[str, str]:
    """Weight format of each, by its id in lower case."""
    return {one.checkpoint.lower(): one.format for one in checkpoints()}


@cache
def published_in(name: str, *, id: str, stored: str, engine: str) -> Checkpoint | None:
    """
    The checkpoint of a model in a format that an engine reads; None where none is known.

    Parameters
    ----------
    name : str
        As the user wrote the model; without an owner it means `id`, that of the catalogue.
    stored : str
        The weight format.

    Examples
    --------
    >>> published_in("meta-llama/Llama-3.3-70B-Instruct", id="", stored="nvfp4", engine="trtllm").checkpoint
    'nvidia/Llama-3.3-70B-Instruct-NVFP4'
    """
    wanted, known = _plain(name if "/" in name else id), _FOUR_BITS.get(stored, (stored,))
    return next((one for one in checkpoints() if _plain(one.model) == wanted and _reads(one, known, engine)), None)


@cache
def chat_variant(name: str) -> str | None:
    """
    The model of the same name that was tuned to answer a chat, where the name alone says no tuning and one is known.

    Examples
    --------
    >>> chat_variant("llama 3.1 8B"), chat_variant("Qwen/Qwen3-8B")
    ('meta-llama/Llama-3.1-8B-Instruct', None)
    """
    if len(name) > MAX_NAME_LENGTH:
        return None
    key, words = parse_name(name).key, tuning(name)
    return next(
        (
            one.model
            for one in checkpoints()
            if parse_name(one.model).key == key and len(chat := tuning(one.model) - words) == 1 and chat <= CHAT
        ),
        None,
    )


def _reads(one: Checkpoint, formats: tuple[str, ...], engine: str) -> bool:
    return one.format in formats and engine in one.readers


def _plain(name: str) -> str:
    """An id as it is compared: Meta writes its models with and without its name."""
    owner, _, bare = name.lower().removeprefix("https://huggingface.co/").rstrip("/").rpartition("/")
    return f"{owner}/{bare.removeprefix('meta-')}"
