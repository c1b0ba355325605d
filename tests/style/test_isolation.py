"""What tests/conftest.py promises every test: no network, and none of the user's own folders."""

import os
import socket
from pathlib import Path

import platformdirs
import pytest


def test_a_connection_that_leaves_the_machine_is_refused() -> None:
    with socket.socket() as client, pytest.raises(Exception, match="mark the test `online`"):
        client.connect(("192.0.2.1", 80))


def test_a_name_is_not_looked_up() -> None:
    with pytest.raises(Exception, match="mark the test `online`"):
        socket.create_connection(("example.org", 443), timeout=1)


def test_this_machine_may_be_reached() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with socket.create_connection(server.getsockname(), timeout=5) as client:
            assert client.getpeername() == server.getsockname()


@pytest.mark.skipif(os.name != "posix", reason="the folders are set through XDG variables")
def test_the_users_folders_are_empty_ones_of_the_test() -> None:
    cache = Path(platformdirs.user_cache_dir("tonnage"))
    assert not cache.is_relative_to(Path.home())
    assert not cache.exists()
