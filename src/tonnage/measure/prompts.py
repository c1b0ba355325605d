"""What is asked? Random words, different in every request, as many as make the wanted tokens.

No tokenizer: the server's own count of two prompts says how many tokens a word is, and how many the
chat template adds. Prompts differ from their first word on, so that no prefix cache answers for the
engine.
"""

from __future__ import annotations

import random
from typing import Final

from tonnage.errors import BadRequest
from tonnage.measure.client import Door, Reply, ask, request_bytes
from tonnage.measure.records import Spec

__all__ = ["prompt", "words_for"]

_TEXT: Final = """
    air all and ask bad bag bar bed big box boy bus but buy can car cat cow cup cut day dog door down dry ear eat
    egg end eye far fat few fire fish fly food foot for fun game get girl give go good hand hard hat head help her hill
    his home horse hot house how ice job jump key king land last law leg let lie life light line lip list long look lot
    love low make man map may meat men milk mind moon more move name near net new night nine nose not now oil old one
    open out own page part pay pen pig plan play pot put rain read red rest rice ring road rock room rose run sad salt
    same sea see set she ship shop show sing sit six sky sleep slow small snow soap son song star stone sun table tail
    tall tea ten time tip top town toy tree try two walk wall war warm wash way west wet white why wife win wind wine
    wood word work year yes you"""
WORDS: Final = tuple(_TEXT.split())
PROBE_TOKENS: Final = 2
FIRST_PROBE: Final = -1


def prompt(*, seed: int, index: int, words: int) -> str:
    """The words of one request; the same seed and index give the same."""
    return " ".join(random.Random(f"{seed}/{index}").choices(WORDS, k=words))


async def words_for(door: Door, spec: Spec) -> int:
    """
    Words that make up the wanted prompt, by the server's own count of two probes.

    A server that does not count gets three words for four tokens, as English has.

    Raises
    ------
    BadRequest
        The server cannot be reached or refuses the request: nothing can be measured.
    """
    short, long = max(1, spec.prompt_tokens // 4), max(2, (spec.prompt_tokens * 3) // 4)
    counts = []
    for number, words in enumerate((short, long)):
        text = prompt(seed=spec.seed, index=FIRST_PROBE - number, words=words)
        data = request_bytes(
            door, prompt=text, output_tokens=min(PROBE_TOKENS, spec.output_tokens), ignore_eos=spec.ignore_eos
        )
        reply = await ask(door, data, timeout_s=spec.timeout_s)
        if reply.failure is not None and reply.failure != "empty":
            raise BadRequest(_why(reply, door, spec))
        counts.append(reply.prompt_tokens)
    few, many = counts
    if not isinstance(few, int) or not isinstance(many, int) or not many > few > 0:
        return max(1, spec.prompt_tokens * 3 // 4)
    per_word = (many - few) / (long - short)
    return max(1, round((spec.prompt_tokens - (few - per_word * short)) / per_word))


def _why(reply: Reply, door: Door, spec: Spec) -> str:
    """The first request failed: one sentence with what to do."""
    where = door.target.url
    status = reply.status or 0
    if reply.failure == "refused":
        return f"{where}: connection refused; is the server running, and is the port right?"
    if status in {401, 403}:
        return f"{where}: the server wants another key ({reply.failure}: {reply.detail}); see --key-env"
    if status == 404:
        return f"{where}: no such path or model '{spec.model}' (http 404: {reply.detail}); see --endpoint and --model"
    if status in {400, 422} and spec.ignore_eos:
        return (
            f"{where}: the server refuses the request ({reply.failure}: {reply.detail}); "
            "one that knows only OpenAI's own fields needs --no-ignore-eos"
        )
    if status in {429, 503}:
        return f"{where}: the server turns requests away ({reply.failure}: {reply.detail}); wait until it has room"
    return f"{where}: the first request failed ({reply.failure}: {reply.detail})"
