"""`tonnage web`: the page and the HTTP API, on this machine."""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import socket
from typing import Any

import click

from tonnage.cli.options import additions_option, limit_options, limits_of
from tonnage.errors import BadRequest, echo

TOKEN = "TONNAGE_TOKEN"
SHORTEST_TOKEN = 16
SPARE_FILES = 200
"""Open files beside connections."""


@click.command(context_settings={"auto_envvar_prefix": "TONNAGE_WEB"})
@click.option("--host", default="127.0.0.1", help="address to listen on")
@click.option("--port", type=click.IntRange(0, 65535), default=8042, help="0 = any free one")
@click.option("--name", "names", multiple=True, help="also answer to this name in Host (behind a proxy, say)")
@click.option("--online", is_flag=True, help="let questions look up models on the Hugging Face hub")
@additions_option
@click.option("--audit", metavar="FILE", help="append a JSON line for each question; - = standard output")
@limit_options
def web(*, host: str, port: int, **options: Any) -> None:
    """
    Serve the page and the HTTP API.

    It listens on this machine alone unless --host says otherwise; then every request must know a token, which is
    printed, or taken from TONNAGE_TOKEN. Nothing is fetched from the network unless --online allows models to be
    looked up. Every option can be set by environment: TONNAGE_WEB_HOST, TONNAGE_WEB_PORT, TONNAGE_WEB_NAMES,
    TONNAGE_WEB_TIME_LIMIT, …
    """
    missing = [name for name in ("litestar", "uvicorn", "jinja2") if importlib.util.find_spec(name) is None]
    if missing:
        raise BadRequest("the page needs the 'web' extra: pip install 'tonnage[web]'")
    if not (host.isascii() and host.isprintable()):
        raise BadRequest(f"--host: '{echo(host)}' is no address of this machine")
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from tonnage.catalog import gather, offers
    from tonnage.web.app import application
    from tonnage.web.connections import protocol
    from tonnage.web.guard import LOOPBACK, is_loopback

    if not options["online"]:
        os.environ["TONNAGE_OFFLINE"] = "1"
    limits = limits_of(options)
    token = "" if is_loopback(host) else _token()
    hosts = (*LOOPBACK, host.lower(), *(name.lower() for name in options["names"]))
    additions = gather(paths=options["folders"])
    offers(additions=additions)  # a file that is not there or cannot be read is said now, not in each answer
    app = application(additions=additions, hosts=hosts, limits=limits, token=token)
    if options["audit"]:
        from tonnage.web.audit import with_audit, writer_of

        app = with_audit(app, writer_of(options["audit"]))
    http: Any = protocol(H11Protocol, limits=limits)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        server_header=False,
        ws="none",
        lifespan="on",
        http=http,
        timeout_graceful_shutdown=0,
    )
    # Ending at once is meant, and no error.
    logging.getLogger("uvicorn.error").addFilter(lambda record: "graceful shutdown" not in record.getMessage())
    server = uvicorn.Server(config)
    _allow_files(limits.connections)
    bound = _named_tcp(config.bind_socket())
    bound.listen(config.backlog)  # whoever reads the next line may ask at once
    click.echo(f"Tonnage is at {_address(host, bound.getsockname()[1], token)} (Ctrl-C ends it)", err=True)
    server.run(sockets=[bound])
    # asyncio swallows the interrupt that uvicorn hands on when the last task has ended before it.
    if server.should_exit:
        raise KeyboardInterrupt


def _token() -> str:
    """
    The token that requests from other machines must know: the user's own by environment, else a new one.

    Raises
    ------
    BadRequest
        The one given is short enough to be guessed, or cannot stand in a header.
    """
    given = os.environ.get(TOKEN, "")
    if not given:
        return secrets.token_urlsafe(24)
    if len(given) < SHORTEST_TOKEN or not given.isascii() or not given.replace("-", "").replace("_", "").isalnum():
        raise BadRequest(f"{TOKEN}: at least {SHORTEST_TOKEN} letters, digits, '-' and '_' are expected")
    return given


def _address(host: str, port: int, token: str) -> str:
    name = f"[{host}]" if ":" in host else host
    # A token of the user's own is not repeated.
    return f"http://{name}:{port}" + (f"/?token={token}" if token and TOKEN not in os.environ else "")


def _allow_files(connections: int) -> None:
    """Let the process open as many files as it may have connections, where the system allows that."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _named_tcp(bound: socket.socket) -> socket.socket:
    # asyncio turns off Nagle's wait for sockets that say TCP alone, and uvicorn's does not: 40 ms more a reply.
    return socket.socket(bound.family, bound.type, socket.IPPROTO_TCP, fileno=bound.detach())
