"""The page's command: how it listens."""

import socket

import pytest
from tests.command import told as answer_of

from tonnage.cli.options import limits_of
from tonnage.cli.web import _address, _named_tcp, _token
from tonnage.errors import TonnageError

USUAL = {"time_limit": "60 s", "memory_limit": "4 GiB", "workers": None}


def test_its_socket_says_tcp_so_that_no_reply_waits_for_more_bytes() -> None:
    uvicorn = pytest.importorskip("uvicorn", reason="the web extra brings it")
    with _named_tcp(uvicorn.Config("", host="127.0.0.1", port=0, log_level="error").bind_socket()) as bound:
        bound.listen()
        with socket.create_connection(bound.getsockname(), timeout=10), bound.accept()[0] as accepted:
            assert bound.proto == accepted.proto == socket.IPPROTO_TCP


def test_limits_are_read_with_their_units() -> None:
    limits = limits_of({"time_limit": "2 min", "memory_limit": "1 GiB", "workers": 3})
    assert (limits.question_s, limits.memory_bytes, limits.workers) == (120.0, 1024.0**3, 3)
    assert limits_of(USUAL).workers >= 2


@pytest.mark.parametrize(
    "wrong", [{"time_limit": "0 s"}, {"time_limit": "2 days"}, {"time_limit": "60"}, {"memory_limit": "1 MB"}]
)
def test_limits_that_are_none_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(TonnageError, match="limit"):
        limits_of({**USUAL, **wrong})


@pytest.mark.parametrize("command", ["web", "mcp"])
@pytest.mark.parametrize(
    ("option", "value", "named"), [("--time-limit", "soon", "--time-limit"), ("--additions", "no.toml", "no.toml")]
)
def test_a_wrong_limit_or_file_is_a_sentence_before_anything_listens(
    command: str, option: str, value: str, named: str
) -> None:
    pytest.importorskip("litestar", reason="the web extra brings it")
    pytest.importorskip("mcp", reason="the mcp extra brings it")
    told = answer_of(command, option, value)
    assert told.exit_code == 2 and named in told.output


def test_a_token_is_made_up_and_printed_or_given_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TONNAGE_TOKEN", raising=False)
    made = _token()
    assert len(made) >= 32 and made != _token()
    assert _address("0.0.0.0", 8042, made) == f"http://0.0.0.0:8042/?token={made}"
    assert _address("::1", 8042, "") == "http://[::1]:8042"
    monkeypatch.setenv("TONNAGE_TOKEN", "a-token-of-the-users-own")
    assert _token() == "a-token-of-the-users-own" and "token" not in _address("0.0.0.0", 8042, _token())
    for wrong in ("short", "with spaces in between them", "with;semicolons;in;between"):
        monkeypatch.setenv("TONNAGE_TOKEN", wrong)
        with pytest.raises(TonnageError, match="TONNAGE_TOKEN"):
            _token()


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.1.2.3", True), ("0.0.0.0", False), ("::", False),
     ("192.168.1.5", False), ("localhost.example", False), ("", False)],
)  # fmt: skip
def test_which_addresses_only_this_machine_reaches(host: str, own: bool) -> None:
    pytest.importorskip("litestar", reason="the web extra brings it")
    from tonnage.web.guard import is_loopback

    assert is_loopback(host) is own
