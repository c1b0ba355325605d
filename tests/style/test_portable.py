"""One wheel serves Linux, macOS and Windows: what only some systems have is asked for before it is used."""

import ast

import pytest
from tests.style.source import modules, nodes_of

MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "winreg", "msvcrt"}
NAMES = {
    "os": {"fork", "geteuid", "getpgid", "getuid", "killpg", "nice", "sched_getaffinity", "setsid", "sysconf", "uname"},
    "signal": {"SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "pthread_sigmask", "setitimer"},
}
ASKS = ("hasattr(", "except AttributeError", "except (AttributeError", "except ImportError", "sys.platform")


def unguarded(source: str) -> list[str]:
    """What only some systems have, used in a function (or at the top) that does not ask whether it is there."""
    functions = [node for node in nodes_of(source) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = []
    for node in nodes_of(source):
        name = ""
        if isinstance(node, ast.Import):
            name = next((alias.name for alias in node.names if alias.name in MODULES), "")
        elif isinstance(node, ast.ImportFrom):
            name = node.module if node.module in MODULES else ""
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}" if node.attr in NAMES.get(node.value.id, ()) else ""
        if not name:
            continue
        line = getattr(node, "lineno", 0)
        around = [one for one in functions if one.lineno <= line <= (one.end_lineno or one.lineno)]
        if not any(ask in (ast.get_source_segment(source, one) or "") for one in around for ask in ASKS):
            found.append(f"line {line}: {name}")
    return found


def test_what_only_some_systems_have_is_asked_for_first() -> None:
    assert {module: lines for module, text in modules() if (lines := unguarded(text))} == {}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("import fcntl", ["line 1: fcntl"]),
        ("import os\ndef f():\n    os.killpg(1, 9)", ["line 3: os.killpg"]),
        ("import os\ndef f():\n    if hasattr(os, 'nice'):\n        os.nice(1)", []),
        ("def f():\n    try:\n        import resource\n    except ImportError:\n        return", []),
    ],
)
def test_the_check_itself(source: str, wrong: list[str]) -> None:
    assert unguarded(source) == wrong
