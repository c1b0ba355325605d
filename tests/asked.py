"""The command, asked inside this process: what it answers as JSON with fields as attributes, what it refuses."""

import json
from typing import Any

from click.testing import CliRunner

from tonnage.cli import root


class Refused(Exception):
    """The sentence that a command ends with where it has no answer."""


class Fields(dict[str, Any]):
    """An object of an answer; a field that it leaves out is None."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


def printed(*words: str, text: str | None = None) -> tuple[str, str]:
    """
    What `tonnage WORDS` prints to both streams, `text` being its standard input.

    Raises
    ------
    Refused
        It ends as a wrong request: one line, and nothing on standard output.
    """
    done = CliRunner().invoke(root, words, prog_name="tonnage", input=text)
    if done.exit_code == 2:
        assert done.stderr.startswith("tonnage: ") and done.stderr.count("\n") == 1 and not done.stdout, done.output
        raise Refused(done.stderr.removeprefix("tonnage: ").rstrip("\n"))
    assert done.exit_code in {0, 3}, (done.output, done.exception)
    return done.stdout, done.stderr


def told(*words: str, text: str | None = None) -> Any:
    """What `tonnage WORDS --json` answers; raises as `printed`."""
    return json.loads(printed(*words, "--json", text=text)[0], object_hook=Fields)
