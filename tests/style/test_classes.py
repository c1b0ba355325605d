"""No inheritance to follow: a class is a frozen record, an error, a choice among names, or a shape others fit."""

import ast

import pytest
from tests.style.source import modules, nodes_of

ALLOWED = {
    "Record",
    "SparseRecord",
    "Struct",
    "Exception",
    "Enum",
    "IntEnum",
    "StrEnum",
    "IntFlag",
    "Protocol",
    "TypedDict",
    "NamedTuple",
    "Generic",
    "Mapping",  # read-only: Python adds what follows from getting an item
}
HEADERS = {"PlanHeader", "RankedPlan", "RankedOption", "RunOption", "Context", "Form"}
"""Records that others extend: what all plans, options, questions and forms of a page hold (decision 16)."""
OPENED = {"float", "StepTable", "Times"}
"""What one formula runs on, plain and explained: numbers that keep their parts, where they come from (decision 4)."""


def base_name(node: ast.expr) -> str:
    """The dotted name of a base class, type parameters left out."""
    return ast.unparse(node.value if isinstance(node, ast.Subscript) else node)


def is_exception(name: str, found: dict[str, list[str]]) -> bool:
    """Whether a class is an exception: by Python's or click's naming, or because its own base is."""
    if name in found:
        return any(is_exception(base, found) for base in found[name])
    return name.rpartition(".")[2].endswith(("Error", "Exception", "Warning", "Interrupt", "Exit"))


def forbidden_bases(sources: dict[str, str]) -> list[str]:
    """One sentence for each class with a base outside the list."""
    classes = [
        (f"src/tonnage/{module}:{node.lineno} {node.name}", node)
        for module, text in sources.items()
        for node in nodes_of(text)
        if isinstance(node, ast.ClassDef)
    ]
    found = {node.name: [base_name(base) for base in node.bases] for _, node in classes}
    return [
        f"{place} inherits {name}: allowed are {', '.join(sorted(ALLOWED))}, errors and click's own classes"
        for place, node in classes
        for name in map(base_name, node.bases)
        if name.rpartition(".")[2] not in ALLOWED | HEADERS | OPENED
        and not name.startswith("click.")
        and not is_exception(name, found)
    ]


def thawed_structs(sources: dict[str, str]) -> list[str]:
    """Structs of the domain that are not frozen."""
    return [
        f"src/tonnage/{module}:{node.lineno} {node.name}: a noun is a Record"
        for module, text in sources.items()
        if module.startswith("domain/")
        for node in nodes_of(text)
        if isinstance(node, ast.ClassDef)
        and "Struct" in {base_name(base).rpartition(".")[2] for base in node.bases}
        and not any(
            keyword.arg == "frozen" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            for keyword in node.keywords
        )
    ]


def test_classes_inherit_only_from_the_short_list() -> None:
    wrong = forbidden_bases(dict(modules()))
    assert not wrong, "\n" + "\n".join(wrong)


def test_domain_structs_are_frozen() -> None:
    wrong = thawed_structs(dict(modules()))
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("class A: ...", False),
        ("class A(msgspec.Struct, frozen=True): ...", False),
        ("class A(Record, kw_only=True): ...", False),
        ("class A(RankedPlan[Serve, ServeOption]): ...", False),
        ("class A(Protocol[T]): ...", False),
        ("class A(click.Group): ...", False),
        ("class TonnageError(Exception): ...\nclass UnknownName(TonnageError): ...", False),
        ("class A(KeyError): ...", False),
        ("class A: ...\nclass B(A): ...", True),
        ("class A(msgspec.Struct, frozen=True): ...\nclass B(A, frozen=True): ...", True),
        ("class A(abc.ABC): ...", True),
    ],
)
def test_the_list_says_yes_and_no(text: str, caught: bool) -> None:
    assert bool(forbidden_bases({"domain/x.py": text})) is caught


def test_a_struct_that_thaws_is_caught() -> None:
    assert thawed_structs({"domain/x.py": "class A(msgspec.Struct, kw_only=True): ..."})
    assert not thawed_structs({"domain/x.py": "class A(msgspec.Struct, frozen=True): ..."})
