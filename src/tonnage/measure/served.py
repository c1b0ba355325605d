"""
What does a server say that it serves? Its list of models (`/v1/models`), held against what is asked of it.

vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp, Ollama and LM Studio list ids; vLLM the checkpoint behind one (`root`),
llama.cpp its parameters (`meta.n_params`), and it answers whatever name it is asked by.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from tonnage.errors import BadRequest, echo
from tonnage.measure.client import Connection, Target
from tonnage.measure.load import is_same_model
from tonnage.measure.scrape import fetch
from tonnage.record import Record


class Served(Record, kw_only=True):
    """One model of a server's list."""

    id: str
    root: str = ""
    """The checkpoint behind it; empty = not said."""
    parameters: float | None = None


async def served_at(connection: Connection) -> tuple[Served, ...]:
    """The list of a server; empty where it has none that can be read."""
    target = connection.target
    path = target.path.removesuffix("/completions").removesuffix("/chat") + "/models"
    page = await fetch(replace(target, path=path), key=connection.secret)
    try:
        listed = msgspec.json.decode(page or b"{}")
        rows = [row for row in listed.get("data") or () if isinstance(row.get("id"), str)]
    except (msgspec.DecodeError, AttributeError, TypeError):
        return ()
    return tuple(Served(id=row["id"], root=_text(row.get("root")), parameters=_parameters(row)) for row in rows)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _parameters(row: dict[str, Any]) -> float | None:
    meta = row.get("meta")
    said = meta.get("n_params") if isinstance(meta, dict) else None
    return float(said) if isinstance(said, int | float) and not isinstance(said, bool) and said > 0 else None


def refuse_unserved(served: tuple[Served, ...], target: Target) -> None:
    """
    Nothing, where a server's list has the model that is asked for, or says nothing.

    Raises
    ------
    BadRequest
        It lists other models alone: what answers would be one of them.
    """
    if served and not any(is_same_model(one.id, target.model) for one in served):
        listed = ", ".join(f"'{echo(one.id)}'" for one in served[:3])
        raise BadRequest(
            f"{target.url}: the server serves {listed}, not '{echo(target.model)}'; name it as the server does: "
            f"--model '{echo(served[0].id)}'"
        )


def of_model(served: tuple[Served, ...], name: str) -> Served | None:
    """The entry of the model that is asked for."""
    return next((one for one in served if is_same_model(one.id, name)), None)
