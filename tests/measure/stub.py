"""A server that answers as told: streams tokens at a pace, counts wrongly, breaks off, refuses. Loopback only.

Runs in a thread with a loop of its own (tests) or as a process of its own (`python -m tests.measure.stub PORT`,
for the benchmark, so that it competes with the client for nothing but cores).
"""

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from tests.patience import PATIENCE_S

__all__ = ["Stub", "behave", "serving"]


@dataclass
class Stub:
    """How the server behaves, and what it has seen."""

    ttft_s: float = 0.002
    itl_s: float = 0.001
    words_each: int = 2
    """Tokens of a word of the prompt."""
    template: int = 10
    usage: Callable[[int, int], object] | None = None
    """From prompt and output tokens to what it claims; none = the truth."""
    fault: Callable[[int], str] | None = None
    """From the number of the request to a fault: "", "500", "429", "garbage", "cut", "reset", "slow", "error" …"""
    listed: object = None
    """What its list of models says; none = it has no list."""
    named: str = ""
    """The model that its answers name; empty = none."""
    slows_after: int = 0
    """The number of the request behind which tokens take twice as long; 0 = never."""
    slots: int = 10_000
    """Requests served at once; others wait."""
    port: int = 0
    seen: list[bytes] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    """What each answer really took until its first token: on a busy machine longer than it was told to."""
    gap_s: list[float] = field(default_factory=list)
    """What each answer's tokens really took on average after it."""
    gate: asyncio.Semaphore | None = None
    down: Callable[[], None] | None = None


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(value: object) -> bytes:
    return chunk(b"data: " + json.dumps(value).encode() + b"\n\n")


TOKEN = event({"choices": [{"delta": {"content": "x "}}]})
LAST = event({"choices": [{"delta": {}, "finish_reason": "length"}]})
END = chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def refusal(status: int, text: str) -> bytes:
    body = json.dumps({"error": {"message": text}}).encode()
    return b"HTTP/1.1 %d No\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )


async def behave(stub: Stub, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            stub.heads.append(head)
            if head.startswith(b"GET") and b"/models" in head and stub.listed is not None:
                page = json.dumps(stub.listed).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(page), page))
                break
            if head.startswith(b"GET"):
                writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
                break
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            stub.seen.append(body)
            fault = stub.fault(len(stub.seen)) if stub.fault else ""
            async with stub.gate or contextlib.nullcontext():
                if not await answer(stub, writer, body=json.loads(body), head=head, fault=fault):
                    break
    with contextlib.suppress(Exception):
        writer.transport.abort() if asyncio.current_task().cancelling() else writer.close()  # type: ignore[union-attr]


async def answer(stub: Stub, writer: asyncio.StreamWriter, *, body: dict, head: bytes, fault: str) -> bool:  # type: ignore[type-arg]
    """Whether the connection goes on."""
    if fault.isdigit():
        key = head.partition(b"Bearer ")[2].partition(b"\r\n")[0].decode()
        writer.write(refusal(int(fault), f"no more for {key}"))
        return True
    if fault == "reset":
        writer.transport.abort()
        return False
    text = body["messages"][0]["content"] if "messages" in body else body["prompt"]
    prompt, wanted = stub.template + stub.words_each * len(text.split()), body["max_tokens"]
    of = {"model": stub.named} if stub.named else {}
    writer.write(HEAD + event({**of, "choices": [{"delta": {"role": "assistant", "content": ""}}]}))
    if fault == "drip":  # a byte a second
        for byte in TOKEN * 1000:
            await asyncio.sleep(1.0)
            writer.write(bytes([byte]))
            await writer.drain()
    itl_s = stub.itl_s * (2 if 0 < stub.slows_after < len(stub.seen) else 1)
    if fault == "slow":  # drips a comment now and then, and never an answer
        while True:
            await asyncio.sleep(0.05)
            writer.write(chunk(b": wait\n\n"))
            await writer.drain()
    if fault == "garbage":
        writer.write(chunk(b"data: {not json\n\n"))
        return True
    if fault == "error":
        writer.write(event({"error": {"message": "out of memory"}}) + END)
        return True
    begun = time.perf_counter()
    await asyncio.sleep(stub.ttft_s)
    first = time.perf_counter()
    stub.first_s.append(first - begun)
    for number in range(wanted):
        if number and itl_s:
            await asyncio.sleep(itl_s)
        if fault == "cut" and number == wanted // 2:
            writer.transport.abort()
            return False
        if fault != "mute":
            writer.write(TOKEN)
    stub.gap_s.append((time.perf_counter() - first) / max(wanted - 1, 1))
    truth = {"prompt_tokens": prompt, "completion_tokens": wanted}
    usage = stub.usage(prompt, wanted) if stub.usage else truth
    writer.write(LAST + (event({"choices": [], "usage": usage}) if usage is not None else b"") + END)
    await writer.drain()
    return True


async def run(stub: Stub, ready: Callable[[], None], stopped: Callable[[], Awaitable[object]]) -> None:
    stub.gate = asyncio.Semaphore(stub.slots)
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await behave(stub, reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", stub.port, backlog=4096)
    stub.port = server.sockets[0].getsockname()[1]
    ready()
    await stopped()
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # closed connections are told so


@contextlib.contextmanager
def serving(stub: Stub) -> Iterator[str]:
    """The server's address, while it runs; `stub.down()` kills it early."""
    up, loop = threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def main() -> None:
        await run(stub, up.set, over.wait)

    def whole() -> None:
        loop.run_until_complete(main())
        loop.close()

    thread = threading.Thread(target=whole, daemon=True)
    thread.start()
    assert up.wait(PATIENCE_S)

    def down() -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(over.set)

    stub.down = down
    try:
        yield f"http://127.0.0.1:{stub.port}"
    finally:
        down()
        thread.join(5)


if __name__ == "__main__":
    given = Stub(ttft_s=float(sys.argv[1]), itl_s=float(sys.argv[2]))
    asyncio.run(run(given, lambda: print(given.port, flush=True), asyncio.Event().wait))
