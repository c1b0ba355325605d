"""Bytes in, events out, however the network cuts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.measure.stream import Body, Broken, events_of, head_of, take_body

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def read(data: bytes, cuts: list[int]) -> tuple[bytes, bool]:
    """What comes out when the bytes arrive in pieces that end at the cuts."""
    buffer, found, body = bytearray(), b"", None
    edges = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    for start, end in zip([0, *edges], edges, strict=False):
        buffer += data[start:end]
        if body is None:
            head = head_of(buffer)
            if head is None:
                continue
            body = Body(head=head, left=head.length or 0)
        found += take_body(buffer, body)
    return found, body.ended


@given(parts=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6), cuts=st.lists(st.integers(0, 500)))
def test_a_chunked_body_is_whole_however_it_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    assert read(HEAD + chunked(*parts), cuts) == (b"".join(parts), True)


@given(body=st.binary(max_size=60), cuts=st.lists(st.integers(0, 200)))
def test_a_body_of_stated_length_is_whole_however_it_is_cut(body: bytes, cuts: list[int]) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    found, _ = read(head + body, cuts)
    assert found == body


def test_a_first_delta_without_text_is_no_token() -> None:
    text = bytearray(
        b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
        b": a comment\n\n"
        b'data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}\r\n\r\n'
        b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}\n\n'
        b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
    )
    events, done = events_of(text)
    assert [event.has_text for event in events] == [False, True, False, False]
    assert [event.finished for event in events] == [False, False, True, False]
    assert done and events[3].usage.completion_tokens == 1


@pytest.mark.parametrize(
    "line", [b"data: {not json\n", b"data: [1]\n", b"<html>\n", b'data: {"choices": 4}\n', b"data: \xff\xfe\n"]
)
def test_what_is_no_event_is_malformed(line: bytes) -> None:
    with pytest.raises(Broken) as caught:
        events_of(bytearray(line))
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize("size", [b"zz\r\n", b"-5\r\n", b"x" * 2000])
def test_a_chunk_without_a_size_is_malformed(size: bytes) -> None:
    buffer = bytearray(HEAD + size)
    head = head_of(buffer)
    assert head is not None
    with pytest.raises(Broken):
        take_body(buffer, Body(head=head, left=0))


@given(st.binary(max_size=300))
def test_hostile_bytes_are_read_or_refused_and_never_crash(data: bytes) -> None:
    buffer = bytearray(data)
    try:
        head = head_of(buffer)
        if head is not None:
            events_of(bytearray(take_body(buffer, Body(head=head, left=head.length or 0))))
        events_of(bytearray(data))
    except Broken as refused:
        assert refused.kind == "malformed"
        assert "\n" not in str(refused)


def read_all(data: bytes) -> tuple[int, int]:
    """Status and events of an answer, as the client reads it."""
    buffer = bytearray(data)
    head = head_of(buffer)
    text = bytearray(take_body(buffer, Body(head=head, left=head.length or 0)))
    return head.status, len(events_of(text)[0])


EVENTS = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n' * 2 + b"data: [DONE]\n\n"


def answer(body: bytes = EVENTS, head: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


@pytest.mark.parametrize(
    ("said", "cached"),
    [
        ('{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}},"timings":{"cache_n":5}}', 4),
        ('{"usage":{"prompt_tokens":9},"timings":{"cache_n":5,"prompt_n":4}}', 5),
        ('{"usage":{"prompt_tokens":9},"timings":{"prompt_n":3}}', 6),
        ('{"usage":{"prompt_tokens":9,"prompt_tokens_details":null}}', None),
        ('{"usage":{"prompt_tokens":9,"prompt_tokens_details":[1]},"timings":{}}', None),
    ],
    ids=["usage", "llama.cpp", "older llama.cpp", "null", "no object"],
)
def test_cached_tokens_are_read_where_a_server_states_them(said: str, cached: int | None) -> None:
    ((event,), _) = events_of(bytearray(f"data: {said}\n".encode()))
    assert event.cached_tokens == cached


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n"])
def test_lines_of_a_stream_end_as_the_standard_allows(end: bytes) -> None:
    assert read_all(answer(EVENTS.replace(b"\n", end))) == (200, 2)


def test_a_line_end_cut_in_two_is_one_more_empty_line() -> None:
    text = bytearray(b'data: {"choices": []}\r')
    assert len(events_of(text)[0]) == 1
    text += b"\ndata: [DONE]\r\n"
    assert events_of(text) == ([], True)


def test_what_comes_before_the_answer_is_passed_over() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
    assert read_all(hints * 3 + b"HTTP/1.1 100 Continue\r\n\r\n" + answer()) == (200, 2)
    assert head_of(bytearray(hints)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 " + b"2" * 5_000 + b" OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n",
        answer(head=b"Content-Length: 7\r\n"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 900 + b"\r\nx",
    ],
)
def test_a_head_that_says_what_no_server_means(data: bytes) -> None:
    with pytest.raises(Broken):
        buffer = bytearray(data)
        head = head_of(buffer)
        assert head is not None
        take_body(buffer, Body(head=head, left=0))
