"""
What starts a model on one's own machine: a script for each engine that runs it there, and a container of llama.cpp's.

The words are those of the answer's own commands (`engines.at_home`), which the predicted rates are of.
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.machine import LocalAnswer, LocalRow
from tonnage.engines.at_home import spread_engine
from tonnage.errors import BadRequest
from tonnage.export.target import image
from tonnage.export.text import Files, comment, head, yaml_text

PORT: Final = 8080
"""Of llama-server, as it is by default."""
DEVICES: Final[dict[str, dict[str, Any]]] = {
    "nvidia": {
        "deploy": {
            "resources": {"reservations": {"devices": [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]}}
        }
    },
    "amd": {"devices": ["/dev/kfd", "/dev/dri"]},
}
"""What gives a container every card of the machine, by their maker."""
OLLAMA: Final = """\
if ollama list > /dev/null 2>&1; then
  echo "an Ollama server runs already, with a context of its own: stop it first" >&2
  exit 1
fi
ollama serve &
trap 'kill $!' EXIT
until ollama list > /dev/null 2>&1; do sleep 1; done
"""
"""Before the command: the context is a setting of the server."""


def home_files(answer: LocalAnswer, *, vendor: str) -> Files:
    """
    The files that start the first model of an answer, by name: `llama-server.sh`, those of other engines that run it,
    and `compose.yaml` where a container is known that finds the cards of that maker (`vendor`, "" = none).

    Raises
    ------
    BadRequest
        Nothing runs on the machine.
    """
    if not answer.rows:
        raise BadRequest(f"no files are written: {answer.sentence}")
    row, files = answer.rows[0], Files()
    told = [f"{row.model} on {answer.machine}, {row.context:,} tokens of context."]
    told += [f"{note[0].upper()}{note[1:]}." for note in answer.notes if "command" in note]
    for number, (engine, command) in enumerate(row.commands):
        program, _, rest = command.partition(" ")
        lines = [f"{engine}{'' if number else f', {row.format}'}. Written by Tonnage.", *told]
        lines += [] if number else [_rates(row)]
        setting = engine.partition(" with ")[2]
        run = f"export {setting}\n{OLLAMA}{command}\n" if setting else f"exec {command}\n"
        files[f"{program}.sh"] = f"#!/bin/sh\n{comment(lines)}set -eu\n{run}"
        if number == 0 and vendor.lower() in DEVICES and " -m " not in command:  # that is a file of this machine
            files["compose.yaml"] = _compose(program, rest.split(), vendor=vendor.lower(), lines=lines[1:])
    return files


def _rates(row: LocalRow) -> str:
    """What is predicted of the files, in a line."""
    rate, prompt = row.decode_per_s, row.prompt_per_s.value
    low, high = rate.low or rate.value, rate.high or rate.value
    return f"Predicted: {rate.value:.3g} tokens/s ({low:.3g} to {high:.3g}), {prompt:,.0f} of a prompt; {rate.basis}."


def _compose(program: str, words: list[str], *, vendor: str, lines: list[str]) -> str:
    """The server in a container with every card of the machine."""
    engine = spread_engine()
    service = {
        "image": image(f"{engine.name}-{vendor}", engine.pinned),
        "command": [*words, "--host", "0.0.0.0", "--port", str(PORT)],
        "environment": {"HF_TOKEN": "${HF_TOKEN:-}", "LLAMA_CACHE": "/models"},
        "ports": [f"127.0.0.1:{PORT}:{PORT}"],
        "volumes": ["models:/models"],
        **DEVICES[vendor],
    }
    document = {"services": {program: service}, "volumes": {"models": {}}}
    return head(engine.title, engine.pinned, lines=[*lines, "Start it: docker compose up"]) + yaml_text(document)
