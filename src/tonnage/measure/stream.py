"""What does the answer of a streaming endpoint say, and when? Bytes in, events out; opens nothing.

Two layers, each fed as bytes arrive: HTTP/1.1 (head, then a body by chunks, by length or until the
end) and server-sent events with the fields of OpenAI's chat and completions. A server is not
trusted: every buffer has a bound, and whatever breaks the rules ends as one `Broken` with a short kind.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tonnage.record import Record

MAX_HEAD_LENGTH = 65_536
MAX_LINE_LENGTH = 1_048_576
MAX_LENGTH_DIGITS = 18
"""Digits of a length: no answer has 10^18 bytes."""
_STATUS = re.compile(rb"[1-9]\d\d\Z")


class Broken(Exception):
    """The answer breaks a rule; `kind` is short and stable, the text says which rule."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(detail or kind)
        self.kind = kind


class Head(Record, kw_only=True):
    """Status and the headers that matter."""

    status: int
    stream: bool
    """Whether the content is an event stream."""
    chunked: bool
    length: int | None
    """Bytes of the body when stated; absent = until its end is marked."""
    keep: bool
    """Whether the connection may be used again."""


class Body(msgspec.Struct, kw_only=True):
    """How far a body has been read; changed in place as bytes arrive."""

    head: Head
    left: int
    """Bytes still to come of the chunk, or of the whole body when its length is known."""
    ended: bool = False


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Any] | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Any = None
    completion_tokens: Any = None
    prompt_tokens_details: Any = None


class _Timings(msgspec.Struct):
    cache_n: Any = None
    prompt_n: Any = None
    prompt_ms: float | None = None
    predicted_ms: float | None = None


class Event(msgspec.Struct):
    """One `data:` line of the stream."""

    choices: list[_Choice] | None = None
    model: Any = None
    usage: _Usage | None = None
    timings: _Timings | None = None
    """llama.cpp's own clock."""
    error: Any = None

    @property
    def has_text(self) -> bool:
        """Whether the event carries a token that is not empty."""
        for choice in self.choices or ():
            delta = choice.delta
            if choice.text:
                return True
            if delta is not None and (delta.content or delta.reasoning_content or delta.reasoning or delta.tool_calls):
                return True
        return False

    @property
    def finished(self) -> bool:
        """Whether the event says that the last token has been made."""
        return any(choice.finish_reason for choice in self.choices or ())

    @property
    def cached_tokens(self) -> Any:
        """
        Prompt tokens that were in the server's prefix cache, as it says; absent = it does not.

        OpenAI's usage has them in its details (vLLM with --enable-prompt-tokens-details, SGLang with
        --enable-cache-report), llama.cpp's timings as `cache_n`; before that as what `prompt_n`, the tokens computed,
        leaves of the prompt. Its `tokens_cached` is the length of the slot afterwards, and no reuse.
        """
        details = self.usage.prompt_tokens_details if self.usage is not None else None
        said = details.get("cached_tokens") if isinstance(details, dict) else None
        if said is None and self.timings is not None:
            said = self.timings.cache_n
            whole, computed = self.usage.prompt_tokens if self.usage else None, self.timings.prompt_n
            if said is None and isinstance(whole, int) and isinstance(computed, int):
                said = whole - computed
        return said


_DECODER = msgspec.json.Decoder(Event)


def head_of(buffer: bytearray) -> Head | None:
    """
    Read the head off the front of the buffer; nothing when it has not all arrived.

    What a server says before its answer (100 to continue, 103 with early hints) is passed over.
    """
    while (head := _one_head(buffer)) is not None and head.status < 200:
        if head.status == 101:
            raise Broken("malformed", "the server changes to another protocol")
    return head


def _one_head(buffer: bytearray) -> Head | None:
    """One head off the front of the buffer; None when it has not all arrived, `Broken` when it breaks a rule."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > MAX_HEAD_LENGTH:
            raise Broken("malformed", "the head of the answer has no end")
        return None
    lines = bytes(buffer[:end]).split(b"\r\n")
    del buffer[: end + 4]
    words = lines[0].split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not _STATUS.match(words[1]):
        raise Broken("malformed", "the answer is not HTTP/1.1")
    fields: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        name, value = name.strip().lower(), value.strip().lower()
        if name == b"content-length" and fields.get(name, value) != value:
            raise Broken("malformed", "the answer states two lengths")
        fields[name] = value
    length = fields.get(b"content-length")
    if length is not None and not (length.isdigit() and len(length) <= MAX_LENGTH_DIGITS):
        raise Broken("malformed", "the length of the answer is not a number")
    chunked = b"chunked" in fields.get(b"transfer-encoding", b"")
    return Head(
        status=int(words[1]),
        stream=b"event-stream" in fields.get(b"content-type", b""),
        chunked=chunked,
        length=None if chunked or length is None else int(length),
        keep=words[0] != b"HTTP/1.0" and b"close" not in fields.get(b"connection", b""),
    )


def take_body(buffer: bytearray, body: Body) -> bytes:
    """Move what has arrived of the body out of the buffer, without marks of chunks; sets `ended` at its end."""
    if not body.head.chunked:
        found = bytes(buffer if body.head.length is None else buffer[: body.left])
        del buffer[: len(found)]
        if body.head.length is not None:
            body.left -= len(found)
            body.ended = body.left == 0
        return found
    found = b""
    place = 0
    while True:
        if body.left:
            arrived = min(body.left, len(buffer) - place)
            inside = min(arrived, max(body.left - 2, 0))  # the last two bytes of a chunk are its line end
            found += buffer[place : place + inside]
            place += arrived
            body.left -= arrived
            if body.left:
                break
        end = buffer.find(b"\r\n", place)
        if end < 0:
            if len(buffer) - place > 1024:
                raise Broken("malformed", "a chunk of the answer states no size")
            break
        size = _chunk_bytes(bytes(buffer[place:end]))
        if size == 0:
            if len(buffer) < end + 4:
                break
            body.ended = True
            place = len(buffer)
            break
        place = end + 2
        body.left = size + 2
    del buffer[:place]
    return found


def _chunk_bytes(line: bytes) -> int:
    try:
        size = int(line.partition(b";")[0][: MAX_LENGTH_DIGITS + 1], 16)
    except ValueError:
        raise Broken("malformed", "a chunk of the answer states no size") from None
    if size < 0:
        raise Broken("malformed", "a chunk of the answer states a negative size")
    if size >= 10**MAX_LENGTH_DIGITS:
        raise Broken("malformed", "a chunk of the answer states a size that no answer has")
    return size


def events_of(text: bytearray) -> tuple[list[Event], bool]:
    """
    The complete events at the front of the text, which are removed, and whether `[DONE]` was among them.

    Lines end by CR, LF or both, as the standard has it; an LF behind a CR is then one more empty line.
    """
    if b"\r" in text:
        text[:] = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    end = text.rfind(b"\n")
    if end < 0:
        if len(text) > MAX_LINE_LENGTH:
            raise Broken("malformed", "a line of the stream has no end")
        return [], False
    lines = bytes(text[:end]).split(b"\n")
    del text[: end + 1]
    events, done = [], False
    for line in lines:
        if line.startswith(b"data:"):
            data = line[5:].strip()
            if data == b"[DONE]":
                done = True
                continue
            try:
                events.append(_DECODER.decode(data))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise Broken("malformed", "an event of the stream is not the JSON of an answer") from None
        elif line.strip() and not line.startswith((b":", b"event:", b"id:", b"retry:")):
            raise Broken("malformed", "a line of the stream is not an event")
    return events, done
