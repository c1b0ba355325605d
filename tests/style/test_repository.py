"""The repository speaks of the project alone, and its links lead somewhere."""

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]

# Written in halves, so that this file does not find itself.
MACHINE_PATHS = ["/wo" + "rk/", "/ro" + "ot/", "/t" + "mp/"]
REGISTRY_HOSTS = ["pypi" + ".org", "pythonhosted" + ".org", "registry.npm" + "js", "deb.debian" + ".org"]

LINK = re.compile(
    r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)?)>?(?:\s+\"[^\"]*\")?\s*\)"
)
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)", re.MULTILINE)


def tracked() -> list[Path]:
    """Every file of the repository: what git tracks, or outside a checkout (an unpacked archive) nothing."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: which files belong to the repository is unknown")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def text_of(path: Path) -> str | None:
    """A file's text, or None of a binary file."""
    data = path.read_bytes()
    return None if b"\0" in data[:8192] or path.suffix == ".gz" else data.decode("utf-8", errors="replace")


def mentions(text: str) -> list[str]:
    """The machine paths a text mentions, as whole paths and not as a part of a longer one, and the hosts."""
    paths = [word for word in MACHINE_PATHS if re.search(rf"(?<![\w.~/$}}-]){re.escape(word)}", text)]
    return paths + [host for host in REGISTRY_HOSTS if host in text]


def without_code(markdown: str) -> str:
    """Markdown with its code left out, where brackets are not links."""
    fenced = re.sub(r"^( *)(```+|~~~+).*?^ *\2`*~*\s*$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", fenced, flags=re.DOTALL)


def anchors(markdown: str) -> set[str]:
    """The anchors that a page's headings make, as GitHub spells them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", without_fences(markdown), flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while (anchor := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(anchor)
    return found | set(re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", markdown))


def without_fences(markdown: str) -> str:
    return re.sub(r"^( *)(```+|~~~+).*?^ *\2`*~*\s*$", "", markdown, flags=re.MULTILINE | re.DOTALL)


def dead_links(page: Path, markdown: str, root: Path) -> list[str]:
    """The relative links of a page that lead to no file, or to no heading of the page they name."""
    text = without_code(markdown)
    dead = []
    for target in [*LINK.findall(text), *REFERENCE.findall(text)]:
        if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//", target) or not target:
            continue
        name, _, anchor = unquote(target).partition("#")
        aim = page if not name else (root / name.lstrip("/") if name.startswith("/") else page.parent / name)
        if not aim.exists():
            dead.append(f"{page.relative_to(root)}: {target} leads to no file")
        elif anchor and aim.suffix == ".md" and anchor not in anchors(aim.read_text(encoding="utf-8")):
            dead.append(f"{page.relative_to(root)}: {target} names no heading there")
    return dead


def test_no_tracked_file_mentions_a_machine_path_or_a_registry_host() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in tracked()
        if (text := text_of(path)) is not None
        for word in mentions(text)
    ]
    assert not found, "\n" + "\n".join(found)


def test_every_relative_link_in_markdown_resolves() -> None:
    pages = [path for path in tracked() if path.suffix == ".md"]
    wrong = [dead for page in pages for dead in dead_links(page, page.read_text("utf-8"), ROOT)]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("see /wo" + "rk/main", True),
        ("'/t" + "mp/x'", True),
        ("pip install --index https://pypi" + ".org/simple", True),
        ("src/wo" + "rk/x", False),
        ("frame" + "work/ and $HOME/t" + "mp/", False),
    ],
)
def test_a_mention_is_a_whole_path_or_host(text: str, caught: bool) -> None:
    assert bool(mentions(text)) is caught


@pytest.mark.parametrize(
    ("markdown", "dead"),
    [
        ("[a](other.md)", 0),
        ("[a](other.md#a-heading-twice) [b](#here)\n\n# Here", 0),
        ("[a](https://example.org/x) [b](mailto:a@example.org)", 0),
        ("`[a](missing.md)`\n\n```\n[a](missing.md)\n```\n", 0),
        ("[a](missing.md)", 1),
        ("[a][b]\n\n[b]: missing.md", 1),
        ('![chart](missing.svg "a title")', 1),
        ("[a](other.md#no-such)", 1),
    ],
)
def test_a_dead_link_is_told_from_a_live_one(tmp_path: Path, markdown: str, dead: int) -> None:
    (tmp_path / "other.md").write_text("# A heading: twice!\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(markdown, encoding="utf-8")
    assert len(dead_links(page, markdown, tmp_path)) == dead
