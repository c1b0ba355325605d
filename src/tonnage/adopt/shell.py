"""
Which commands would a shell script start? Read, never run.

Enough of bash for launch scripts as people write them: continued lines, comments, assignments, arrays, `${NAME:-else}`,
`$((A * B))` of whole numbers, and scripts inside `bash -c`. What a script computes otherwise stays as it is written, so
that whoever reads the commands sees the `$` and can say what is missing. Loops and conditions are read through: each
branch's commands come in the order of the file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from tonnage.adopt.documents import whole_of
from tonnage.errors import BadFact
from tonnage.record import Record

LARGEST: Final = 256 * 1024
"""Characters of a script: reading a word takes a microsecond a letter."""
LONGEST: Final = 32 * 1024
"""Characters of one command, its continued lines and variables filled in."""
MOST_WORDS: Final = 20_000
"""Of a script's commands together."""
MOST: Final = 10**15
"""A sum beyond that counts no ranks and stays as it is written."""
DEEPEST: Final = 4
"""Scripts inside `bash -c` inside scripts."""
_ASSIGNED: Final = re.compile(
    r"(?:export\s+|declare\s+(?:-\w+\s+)?|local\s+|readonly\s+)?([A-Za-z_]\w*)(\+?)=(.*)", re.S
)
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:(:?[-=?])([^}]*))?\}|([A-Za-z_]\w*))")
_ARRAY: Final = re.compile(r"\$\{([A-Za-z_]\w*)\[[@*]\]\}")
_SUM: Final = re.compile(r"\$\(\(([^()]*)\)\)")
_TERMS: Final = re.compile(r"\s*\$?\{?([A-Za-z_]\w*|\d+)\}?\s*([-+*/]|$)")
_DOCUMENT: Final = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
_WRITTEN: Final = re.compile(r"(?<!<)>{1,2}\s*[\"']?([^\s\"'<>|;&]+)")
_ARRAY_BEGINS: Final = re.compile(r"\s*(?:export\s+|declare\s+-\w+\s+)?[A-Za-z_]\w*\+?=\(")
_QUOTING: Final = re.compile(r"\\.|['\"]|(?<!\S)#")
"""What opens and closes quotes: an escaped character is none of them, a # begins a comment where a word would."""
_JOINED: Final = re.compile(r"(?<=\s)\d*>&\d+")
"""One output sent after another: 2>&1."""
_SENT: Final = re.compile(r"(?:\d*|&)>{1,2}(.*)")
"""An output sent to a file, whose name may be the next word."""
_ENDS: Final = frozenset({";", "&", "&&", "||", "|", ";;", "(", ")"})
_LEADING: Final = frozenset(
    {"then", "else", "do", "fi", "done", "if", "while", "for", "!", "{", "}", "exec", "nohup", "time"}
)
"""Words before a command that are none of its own."""
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash"})


class Script(Record, kw_only=True):
    """What a script would start, and what it says to a scheduler."""

    commands: tuple[tuple[str, ...], ...]
    """The words of each, as its program would get them."""
    directives: tuple[str, ...] = ()
    """Arguments of #SBATCH lines, one text a line."""
    files: Mapping[str, str] = {}
    """Files that the script writes before its program starts: `cat > NAME << EOF`, `printf %s TEXT > NAME`."""


def read_script(text: str, *, variables: Mapping[str, str] | None = None, depth: int = 0) -> Script:
    """
    The commands of a script; `variables` are those that its surroundings set (a manifest's `env`).

    Raises
    ------
    BadFact
        It is longer than launch scripts are; nothing is left out in silence.
    """
    if len(text) > LARGEST:
        raise BadFact(f"the script is longer than {LARGEST // 1024} KiB, which none that starts a model needs")
    known = dict(variables or {})
    arrays: dict[str, list[str]] = {}
    commands: list[tuple[str, ...]] = []
    directives: list[str] = []
    lines, written = _lines(text)
    files = {expand_text(name, known): content for name, content in written.items()}
    total = 0
    for line in lines:
        if line.lstrip().startswith("#"):
            found = re.match(r"\s*#SBATCH\s+(.*)", line)
            directives += [expand_text(found[1].partition(" #")[0].strip(), known)] if found else []
            continue
        if _read_assignment(line, known, arrays):
            continue
        counted = _JOINED.sub("", _SUM.sub(lambda found: _sum(found, known), line))
        for words in _split(counted):
            filled = _expand_words(words, known, arrays)
            total += len(filled)
            if total > MOST_WORDS:
                raise BadFact(f"the script has more than {MOST_WORDS:,} words, which none that starts a model needs")
            inner = _inner_script(filled)
            if inner is not None and depth < DEEPEST:
                nested = read_script(inner, variables=known, depth=depth + 1)
                commands += nested.commands
                files |= nested.files
            elif filled[:1] == ["printf"] and ">" in filled[:-1]:
                files[filled[-1]] = filled[filled.index(">") - 1]
            elif filled:
                commands.append(tuple(_without_outputs(filled)))
    return Script(commands=tuple(commands), directives=tuple(directives), files=files)


def expand_text(text: str, variables: Mapping[str, str]) -> str:
    """The text with the variables that are known in place of their names; `${NAME:-else}` is else where it is not."""

    def value(found: re.Match[str]) -> str:
        name, how, otherwise = found[1] or found[4], found[2] or "", found[3] or ""
        if variables.get(name):
            return variables[name]
        return otherwise if how.endswith(("-", "=")) else found[0]

    for _ in range(DEEPEST):
        if len(text) > LONGEST:
            raise BadFact(
                f"the script has a command of more than {LONGEST // 1024} KiB once its variables are filled in"
            )
        text, before = _VARIABLE.sub(value, _SUM.sub(lambda found: _sum(found, variables), text)), text
        if text == before:
            break
    return text


def _sum(found: re.Match[str], variables: Mapping[str, str]) -> str:
    """Whole numbers joined by + - * / from left to right, as launch scripts count ranks; anything else stays."""
    total, sign, place, text = 0, "+", 0, found[1].strip()
    while place < len(text):
        term = _TERMS.match(text, place)
        number = variables.get(term[1], term[1]) if term else ""
        n = whole_of(number)
        if term is None or n is None or (sign == "/" and n == 0) or total > MOST:
            return found[0]
        total = {"+": total + n, "-": total - n, "*": total * n, "/": total // (n or 1)}[sign]
        sign, place = term[2] or "+", term.end()
    return str(total)


def _lines(text: str) -> tuple[list[str], dict[str, str]]:
    """Logical lines (continuations joined, arrays and quotes kept whole), and the here-documents by their files."""
    lines: list[str] = []
    files: dict[str, str] = {}
    pending: list[str] = []
    state = _Open()
    rest = iter(text.replace("\r\n", "\n").split("\n"))
    for raw in rest:
        if not pending and raw.lstrip().startswith("#"):
            lines.append(raw)
            continue
        if raw.rstrip().endswith("\\"):
            pending.append(raw.rstrip()[:-1] + " ")
            state.read(pending[-1], first=len(pending) == 1)
            continue
        state.read(raw, first=not pending)
        if state.is_open:
            pending.append(raw + "\n")
            continue
        line = "".join([*pending, raw])
        if len(line) > LONGEST:
            raise BadFact(f"the script has a command of more than {LONGEST // 1024} KiB (is a quote left open?)")
        pending, state = [], _Open()
        document = _DOCUMENT.search(line)
        if document is not None:
            name = _WRITTEN.search(line)
            content = []
            for inner in rest:
                if inner.strip() == document[1]:
                    break
                content.append(inner)
            files[name[1] if name else ""] = "\n".join(content)
            continue
        lines.append(line)
    if sum(map(len, pending)) > LONGEST:
        raise BadFact(f"the script has a command of more than {LONGEST // 1024} KiB (is a quote left open?)")
    return [*lines, *(["".join(pending)] if pending else [])], files


class _Open:
    """Whether a quote or an array goes on in the next line; read line by line, so that a long one costs no more."""

    def __init__(self) -> None:
        self._quote, self._array = "", False

    @property
    def is_open(self) -> bool:
        return bool(self._quote) or self._array

    def read(self, text: str, *, first: bool) -> None:
        """One more line, or the first one."""
        self._array = (self._array or (first and _ARRAY_BEGINS.match(text) is not None)) and ")" not in text
        for part in _QUOTING.finditer(text):
            mark = part[0]
            if self._quote:
                # In single quotes a backslash is a letter like others.
                closes = mark == self._quote or (self._quote == "'" and mark == "\\'")
                self._quote = "" if closes else self._quote
            elif mark in ("'", '"'):
                self._quote = mark
            elif mark == "#":
                break


def _read_assignment(line: str, known: dict[str, str], arrays: dict[str, list[str]]) -> bool:
    """An assignment alone on its line is remembered."""
    found = _ASSIGNED.fullmatch(line.strip())
    if found is None:
        return False
    name, more = found[1], bool(found[2])
    value = _SUM.sub(lambda found: _sum(found, known), found[3].strip())
    if value.startswith("("):
        words = split_words(re.sub(r"(?m)(^|\s)#.*$", " ", value.strip()[1:].rstrip(") \t\n")))
        arrays[name] = [*(arrays.get(name, []) if more else []), *_expand_words(words, known, arrays)]
        return True
    words = split_words(value)
    if len(words) > 1 and not value.startswith(("$", '"', "'")):
        return False  # NAME=value command …
    if len(words) <= 1:
        text = expand_text("".join(words), known)
        known[name] = known.get(name, "") + text if more else text
        return True
    return False


def split_words(text: str) -> list[str]:
    """The words of a text as a shell splits them; where a quote is left open, at spaces."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _split(line: str) -> list[list[str]]:
    """The simple commands of a line, without the words that lead them; at its blanks where its quotes do not close."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split, lexer.commenters = True, "#"
    found: list[list[str]] = [[]]
    try:
        words = list(lexer)
    except ValueError:
        words = line.split()
    for word in words:
        if word in _ENDS:
            found.append([])
        elif found[-1] or word not in _LEADING:
            found[-1].append(word)
    return [*filter(None, found)]


def _expand_words(words: list[str], known: Mapping[str, str], arrays: Mapping[str, list[str]]) -> list[str]:
    """Words with variables and arrays in place; a bare variable of several words is several words, as in bash."""
    filled: list[str] = []
    for word in words:
        array = _ARRAY.fullmatch(word)
        if array is not None and array[1] in arrays:
            filled += arrays[array[1]]
            continue
        text = expand_text(word, known)
        bare = _VARIABLE.fullmatch(word) is not None
        filled += split_words(text) if bare and text != word and not text.lstrip().startswith("{") else [text]
    return filled


def _without_outputs(words: list[str]) -> list[str]:
    """The words that a program gets: where its outputs go is the shell's."""
    left: list[str] = []
    named = False
    for word in words:
        sent = _SENT.fullmatch(word)
        if not named and sent is None:
            left.append(word)
        named = sent is not None and not sent[1]
    return left


def _inner_script(words: list[str]) -> str | None:
    """The script that `bash -c SCRIPT` holds, whatever stands before the shell (srun, a container's entry point)."""
    for place, word in enumerate(words[:-1]):
        if word.rsplit("/", 1)[-1] in _SHELLS:
            flags = place + 1
            while flags < len(words) and words[flags].startswith("-") and not words[flags].rstrip().endswith("c"):
                flags += 1
            if flags + 1 < len(words) and re.fullmatch(r"-\w*c", words[flags]):
                return words[flags + 1]
            return None
    return None
