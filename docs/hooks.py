"""What the site holds that code says better: the HTTP API as the server itself describes it."""

from __future__ import annotations

import json
import re
from typing import Any

MARK = "<!-- paths of the API -->"
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?!decisions/)[^)#]+)\)")
"""A link to a file of the repository that is no page of the site."""


WEIGHTS = {"glossary.md": 8, "log/": 0.1}
"""How pages weigh in the site's search: what a word means comes first, the log of findings last."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Fill the place of the table, on the page that has one; name the files that lie outside of the site."""
    for begins, weight in WEIGHTS.items():
        if page.file.src_uri.startswith(begins):
            page.meta["search"] = {"boost": weight}
    inside = page.file.src_uri.count("/")
    told = OUTSIDE.sub(lambda link: named(link, inside), markdown)
    return told.replace(MARK, paths()) if MARK in told else told


def named(link: re.Match[str], inside: int) -> str:
    """A link that leads out of the folder of pages becomes the name of the file; others stay."""
    return link[0] if link[0].count("../") <= inside else f"{link[1]} (`{link[2]}` of the repository)"


def paths() -> str:
    """One section a path: what it answers, its fields, and an example to send."""
    from tonnage.web.openapi import openapi

    document = openapi()
    posts = {path: told["post"] for path, told in document["paths"].items() if "post" in told}
    sections = [section(path, post) for path, post in posts.items() if "example" in body_of(post) or path == "/predict"]
    others = [
        f"| `{method.upper()} {path}` | {one['summary']} | {', '.join(p['name'] for p in one.get('parameters', ()))} |"
        for path, told in document["paths"].items()
        for method, one in told.items()
        if method == "get" or "example" not in body_of(one)
    ]
    rest = "\n".join(
        ["## Pages, kept answers and files", "", "| route | gives | parameters |", "|---|---|---|", *others]
    )
    return "\n\n".join([*sections, rest])


def body_of(post: dict[str, Any]) -> dict[str, Any]:
    """What a route takes as JSON; nothing where it takes none."""
    body: dict[str, Any] = post.get("requestBody", {}).get("content", {}).get("application/json", {})
    return body


def section(path: str, post: dict[str, Any]) -> str:
    body = body_of(post)
    rows = [f"| `{name}` | {kind(field)} | {field.get('description', '')} |" for name, field in fields(body["schema"])]
    shown = json.dumps(body["example"], ensure_ascii=False) if "example" in body else '{"cases": […]}'
    call = f"curl -s localhost:8042{path} -H 'Content-Type: application/json' \\\n  -d '{shown}'"
    table = "\n".join(["| field | type | means |", "|---|---|---|", *rows])
    return f"## POST {path}\n\n{post['summary']}.\n\n```sh\n{call}\n```\n\n{table}"


def fields(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Fields by name; those of a group as group.name."""
    found = []
    for name, field in schema["properties"].items():
        inner = field.get("properties")
        found += [(f"{name}.{own}", told) for own, told in inner.items()] if inner else [(name, field)]
    return found


def kind(field: dict[str, Any]) -> str:
    own = field.get("type", ())
    inner = [kind(option) for option in field.get("anyOf", ())]
    names = [own] if isinstance(own, str) else [*own, *inner]
    return " or ".join(dict.fromkeys(name for name in names if name not in {"null", ""}))
