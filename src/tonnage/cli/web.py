"""`tonnage web`: the page and the HTTP API, on this machine."""

from __future__ import annotations

import importlib.util
import os
import socket

import click

from tonnage.errors import BadRequest

__all__ = ["web"]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on")
@click.option("--port", type=click.IntRange(0, 65535), default=8042, show_default=True, help="0 = any free one")
@click.option("--name", "names", multiple=True, help="also answer to this name in Host (behind a proxy, say)")
@click.option("--online", is_flag=True, help="let questions look up models on the Hugging Face hub")
@click.option("--additions", "folders", multiple=True, type=click.Path(), help="your own accelerators and offers")
def web(host: str, port: int, names: tuple[str, ...], online: bool, folders: tuple[str, ...]) -> None:
    """
    Serve the page and the HTTP API.

    It listens on this machine alone unless --host says otherwise; there is no login, so that whoever can reach it can
    ask. Nothing is fetched from the network unless --online allows models to be looked up.
    """
    missing = [name for name in ("litestar", "uvicorn", "jinja2") if importlib.util.find_spec(name) is None]
    if missing:
        raise BadRequest("the page needs the 'web' extra: pip install 'tonnage[web]'")
    import uvicorn

    from tonnage.catalog import gather
    from tonnage.web.app import application
    from tonnage.web.guard import LOOPBACK

    if not online:
        os.environ["TONNAGE_OFFLINE"] = "1"
    app = application(additions=gather(paths=folders), hosts=(*LOOPBACK, host, *(name.lower() for name in names)))
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning", server_header=False))
    bound = _named_tcp(server.config.bind_socket())
    click.echo(f"Tonnage is at http://{host}:{bound.getsockname()[1]} (Ctrl-C ends it)", err=True)
    server.run(sockets=[bound])


def _named_tcp(bound: socket.socket) -> socket.socket:
    # asyncio turns off Nagle's wait for sockets that say TCP alone, and uvicorn's does not: 40 ms more a reply.
    return socket.socket(bound.family, bound.type, socket.IPPROTO_TCP, fileno=bound.detach())
