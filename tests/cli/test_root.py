"""The `tonnage` command: commands are found in a table, and what a user causes ends as one sentence."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from tests.command import told as run

from tonnage import __version__
from tonnage.cli import root
from tonnage.errors import BadRequest


def shell(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m tonnage"
    environment = {**os.environ, **variables}
    return subprocess.run(
        ["bash", "-c", command.replace("tonnage", program, 1)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Put a function in the place of `tonnage catalog`."""

    def install(body: Callable[[], object]) -> None:
        def get(self: click.Group, ctx: click.Context, name: str) -> click.Command:
            return click.Command(name, callback=body)

        monkeypatch.setattr(type(root), "get_command", get)

    return install


def test_every_listed_command_that_exists_has_help_and_its_file_s_name() -> None:
    shown = root.list_commands(click.Context(root))
    rows = shell("tonnage --help", COLUMNS="110").stdout.partition("Commands:\n")[2].splitlines()
    assert [row.split()[0] for row in rows] == shown and all(row.endswith(".") for row in rows)
    assert "catalog" in shown
    for name in shown:
        result = run(name, "--help")
        assert (result.exit_code, result.stderr) == (0, "")
        assert "Usage: tonnage" in result.stdout


def test_a_listed_command_without_a_file_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.cli.COMMANDS", {"catalog": "What is known.", "dream": "Not written yet."})
    assert "dream" not in run("--help").stdout
    assert "no command 'dream'" in run("dream").stderr


def test_help_and_version() -> None:
    for args in ((), ("--help",), ("-h",)):
        result = run(*args)
        assert result.exit_code == 0
        assert "catalog" in result.stdout
    assert run("--version").stdout == f"tonnage {__version__}\n"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("catlog",), "tonnage: no command 'catlog'; did you mean 'catalog'?"),
        (("catalog", "acelerators"), "tonnage: no command 'acelerators'; did you mean 'accelerators'?"),
        (("pla'n",), "tonnage: no command 'pla'n'; did you mean 'plan'?"),
        (("plan", "ser'e"), "tonnage: no command 'ser'e'; did you mean 'serve'?"),
        (
            ("plan", "serve", "llama-3.1-8b", "H100", "SXM"),
            "tonnage: got unexpected extra arguments (H100 SXM); name an accelerator with --accelerator 'H100 SXM'",
        ),
        (("--hlep",), "tonnage: no option '--hlep'; did you mean '--help'? (see `tonnage --help`)"),
        (("fit", "llama-3.1-8b", "--gpu", "h100"), "tonnage: no option '--gpu'; here it is '--accelerator'"),
        (
            ("plan", "serve", "llama-3.1-8b", "--max_model_len", "9"),
            "tonnage: no option '--max_model_len'; here it is '--context'",
        ),
        (("catalog", "offers", "--provder", "aws"), "tonnage: no option '--provder'; did you mean '--provider'?"),
        (
            ("catalog", "offers", "--limit", "many"),
            "tonnage: invalid value for '--limit': 'many' is not",
        ),
        (("catalog", "offers", "--limit"), "tonnage: option '--limit' requires an argument"),
        (("catalog", "offers", "H100"), "tonnage: got unexpected extra argument (H100)"),
    ],
)
def test_a_usage_error_is_one_sentence_and_code_2(args: tuple[str, ...], sentence: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (BadRequest("rate: '4'\nhas no unit"), 2, "tonnage: rate: '4' has no unit\n"),
        (MemoryError(), 2, "tonnage: the request needs more memory than this machine has"),
        (RecursionError(), 2, "tonnage: the input is nested too deeply"),
        (
            FileNotFoundError(2, "No such file or directory", "x.yaml"),
            2,
            "tonnage: x.yaml: no such file or directory\n",
        ),
        (OSError(28, "No space left on device"), 2, "tonnage: cannot read or write: no space left on device\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 1, ""),
        (click.exceptions.Exit(3), 3, ""),
    ],
)
def test_what_a_command_raises_becomes_a_sentence_and_a_code(
    command: Callable[[Callable[[], object]], None], error: BaseException, code: int, says: str
) -> None:
    def body() -> None:
        raise error

    command(body)
    result = run("catalog")
    assert result.exit_code == code
    assert result.stderr.strip().startswith(says.strip())
    assert "Traceback" not in result.stderr


def test_a_bug_of_ours_keeps_its_traceback(command: Callable[[Callable[[], object]], None]) -> None:
    def body() -> None:
        raise ZeroDivisionError

    command(body)
    assert isinstance(run("catalog").exception, ZeroDivisionError)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("tonnage catalog offers --limit 0 | head -1 >/dev/null; exit ${PIPESTATUS[0]}", 1, ""),
        ("tonnage catalog offers --json --limit 0 | true; exit ${PIPESTATUS[0]}", 1, ""),
        ("tonnage --help >&-", 0, ""),
        ("PYTHONIOENCODING=ascii tonnage catalog accelerators --vendor Apple >/dev/null", 0, ""),
        ("tonnage catalog providers >/dev/full", 2, "tonnage: cannot read or write: no space left on device\n"),
    ],
)
def test_a_reader_that_goes_away_and_a_full_disk_are_quiet(line: str, code: int, says: str) -> None:
    if "/dev/full" in line and not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    found = shell(line)
    assert (found.returncode, found.stderr) == (code, says)


@pytest.mark.parametrize("columns", ["", "0", "20", "90", "300", "wide"])
def test_help_is_as_wide_as_click_would_make_it(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ctx = click.Context(root, info_name="tonnage", **root.context_settings)
    assert shell("tonnage --help", COLUMNS=columns).stdout == root.get_help(ctx) + "\n"


def test_characters_that_are_no_text_are_one_sentence() -> None:
    done = run("measure", "serve", "http://127.0.0.1:9", "--model", "\udcff", "--concurrency", "1")
    assert done.exit_code == 2 and "half of a surrogate pair" in done.output


@pytest.mark.parametrize("name", ["a\\u0000b", "x" * 5_000])
def test_a_trace_at_no_path_is_one_sentence(tmp_path: Path, name: str) -> None:
    case = tmp_path / "case.json"
    case.write_text('{"model": "8B", "accelerator": "H100", "traffic": {"trace": "NAME"}}'.replace("NAME", name))
    done = run("simulate", str(case))
    assert done.exit_code == 2 and done.output.count("\n") == 1, done.output


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("local", "M4 Max"), "name an accelerator with --accelerator 'M4 Max'"),
        (("plan", "batch", "8B", "--quick"), "no option '--quick'; nothing is simulated here"),
        (("local", "--traffic", "code"), "no option '--traffic'; `tonnage plan` has it for serve, batch,"),
        (
            ("local", "-a", "RTX 3090", "--model", "coding"),
            "give a word that names hold, for example 'coder'",
        ),
        (("plan", "a.yaml", "--quick"), "no option '--quick'; a request file says it itself: quick: true"),
        (("fit", "8B", "-a", "8xB200"), "their number (8) where the question has a field for it: accelerators"),
    ],
)
def test_the_nearest_fix_of_what_has_no_place(asked: tuple[str, ...], said: str) -> None:
    result = run(*asked)
    assert result.exit_code == 2 and said in result.stderr
