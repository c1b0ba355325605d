"""
The docstring contract of the ground floor: a formula states its parameters, units, range and source, and what it
states agrees with its signature and with its names.

A function of `tonnage.physics` is a formula if it is public and either takes nothing but keyword-only numbers
(annotated `float`, `int` or `Number`, alone or joined by `|`) or has a Source section in its docstring. Its
examples run with the rest of the tests (`--doctest-modules`).
"""

import ast
import re
from collections.abc import Iterable

import pytest
from tests.style.source import Function, functions, functions_in

NUMBERS = {"float", "int", "Number", "None"}
REQUIRED = ("Returns", "Valid", "Source", "Examples")

# The unit that the last word of a name promises, and the one that a word after `_per_` promises.
NUMERATORS = {
    "bytes": "bytes",
    "s": "s",
    "hours": "h",
    "flop": "FLOP",
    "usd": "USD",
    "w": "W",
    "kwh": "kWh",
    "joules": "J",
    "tokens": "tokens",
}
DENOMINATORS = {"s": "s", "hour": "h", "byte": "byte", "flop": "FLOP", "token": "token", "kwh": "kWh"}


def is_number(annotation: ast.expr | None) -> bool:
    """Whether an annotation allows numbers only."""
    if annotation is None:
        return False
    words = set(re.findall(r"\w+", ast.unparse(annotation)))
    return bool(words - {"None"}) and words <= NUMBERS


def sections(docstring: str) -> dict[str, list[str]]:
    """The numpydoc sections of a docstring, each as its lines; what precedes the first is under ""."""
    lines = docstring.splitlines()
    found: dict[str, list[str]] = {"": []}
    name = ""
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        if line.strip() and re.fullmatch(r"-{3,}", after.strip()):
            name = line.strip()
            found[name] = []
        elif not (re.fullmatch(r"-{3,}", line.strip()) and name and not found[name]):
            found[name].append(line)
    return found


def entries(lines: list[str]) -> dict[str, str]:
    """The items of a Parameters or Returns section: what stands at the margin, and the text indented below."""
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if line.strip() and not line.startswith(" "):
            name = line.split(":")[0].strip()
            found[name] = ""
        elif line.strip() and name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def unit_in(text: str) -> str | None:
    """The bracketed unit that ends a description."""
    match = re.search(r"\[([^\[\]]+)\]\.?\s*$", text)
    return match.group(1) if match else None


def unit_agrees(name: str, unit: str) -> bool:
    """Whether a unit is the one that a name's suffix promises; a name that promises nothing agrees with any."""
    if name.startswith("num_"):
        return True  # a count, whose unit is what is counted
    numerator, *denominators = name.split("_per_")
    promised = NUMERATORS.get(numerator.rpartition("_")[2])
    if not denominators:
        # A bare `s` or `w` is a formula's letter (context tokens, width), not a suffix.
        return promised is None or (numerator in {"s", "w"}) or unit == promised
    if promised is None and not set(denominators) <= set(DENOMINATORS):
        return True
    over = "/".join(DENOMINATORS.get(word, word) for word in denominators)
    return unit == f"{promised}/{over}" if promised else unit.endswith(f"/{over}")


def formulas(found: Iterable[Function]) -> list[Function]:
    """The functions the contract is for."""
    kept = []
    for function in found:
        if function.floor != "physics" or not function.public or function.nested or function.owner:
            continue
        keyword_numbers = not function.positional and all(is_number(p.annotation) for p in function.parameters)
        if (keyword_numbers and function.parameters) or "Source" in sections(doc(function)):
            kept.append(function)
    return kept


def doc(function: Function) -> str:
    return ast.get_docstring(function.node) or ""


def faults(function: Function) -> list[str]:
    """What a formula's docstring lacks or contradicts, one sentence each."""
    found = sections(doc(function))
    said = entries(found.get("Parameters", []))
    names = [parameter.arg for parameter in function.parameters]
    wrong = [f"no {name} section" for name in REQUIRED if not "".join(found.get(name, [])).strip()]
    if not "".join(found[""]).strip():
        wrong.append("no summary line")
    if list(said) != names:
        wrong.append(f"Parameters lists {list(said)}, the signature {names}")
    for parameter in function.parameters:
        if is_number(parameter.annotation) and parameter.arg in said:
            wrong += unit_faults(parameter.arg, said[parameter.arg])
    returned = list(entries(found.get("Returns", [])).values())
    if is_number(function.node.returns) and len(returned) == 1:
        wrong += unit_faults(function.name, returned[0])
    return [f"{function.place}: {sentence}" for sentence in wrong]


def unit_faults(name: str, text: str) -> list[str]:
    unit = unit_in(text)
    if unit is None:
        return [f"{name}: its description ends without a bracketed unit, '[bytes]', '[s]' or '[-]'"]
    return [] if unit_agrees(name, unit) else [f"{name}: unit [{unit}] contradicts the name"]


def test_formulas_keep_the_docstring_contract() -> None:
    wrong = [sentence for function in formulas(functions()) for sentence in faults(function)]
    assert not wrong, "\n" + "\n".join(wrong)


GOOD = '''
def decode_step_s(*, weight_bytes: float, memory_bytes_per_s: float, mbu: float) -> float:
    """
    Time of one decode step when memory traffic is the limit.

    t = W / (u b).

    Parameters
    ----------
    weight_bytes : number
        W, weights held by one accelerator. [bytes]
    memory_bytes_per_s : number
        b, peak memory bandwidth of one accelerator. [bytes/s]
    mbu : number
        u, achieved share of that peak, 0 < u <= 1; from
        calibration. [-]

    Returns
    -------
    number
        Lower bound on inter-token latency. [s]

    Valid
    -----
    Dense models below the ridge batch.

    Source
    ------
    scaling-book-inference.

    Examples
    --------
    >>> decode_step_s(weight_bytes=8e12, memory_bytes_per_s=4e12, mbu=0.5)
    4.0
    """
    return weight_bytes / (mbu * memory_bytes_per_s)
'''


def faults_of(text: str) -> str:
    return "\n".join(
        sentence for function in formulas(functions_in(text, "physics/x.py")) for sentence in faults(function)
    )


def test_the_template_passes() -> None:
    assert len(formulas(functions_in(GOOD, "physics/x.py"))) == 1
    assert faults_of(GOOD) == ""


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("accelerator. [bytes]", "accelerator.", "weight_bytes: its description ends without"),
        ("accelerator. [bytes]", "accelerator. [GB]", "weight_bytes: unit [GB] contradicts"),
        ("[bytes/s]", "[bytes]", "memory_bytes_per_s: unit [bytes] contradicts"),
        ("latency. [s]", "latency. [ms]", "decode_step_s: unit [ms] contradicts"),
        ("    mbu : number", "    mfu : number", "Parameters lists"),
        ("    Source\n    ------\n    scaling-book-inference.\n", "", "no Source section"),
        ("    Valid\n    -----\n    Dense models below the ridge batch.\n", "", "no Valid section"),
    ],
)
def test_a_broken_template_is_caught(before: str, after: str, fault: str) -> None:
    assert before in GOOD
    assert fault in faults_of(GOOD.replace(before, after))


def test_an_estimate_is_not_a_formula() -> None:
    assert not formulas(functions_in("def kv_cache(model: Model, *, tokens: int): ...", "physics/x.py"))
    assert not formulas(functions_in(GOOD, "simulation/x.py"))


@pytest.mark.parametrize(
    ("name", "unit", "agrees"),
    [
        ("kv_bytes_per_token", "bytes/token", True),
        ("kv_bytes_per_token", "bytes", False),
        ("bf16_flop_per_s", "FLOP/s", True),
        ("bf16_flop_per_s", "FLOPS", False),
        ("ridge_flop_per_byte", "FLOP/byte", True),
        ("usd_per_hour", "USD/h", True),
        ("requests_per_s", "requests/s", True),
        ("requests_per_s", "requests", False),
        ("tokens", "tokens", True),
        ("prompt_tokens", "-", False),
        ("power_w", "W", True),
        ("layers", "-", True),
        ("s", "tokens", True),
        ("num_experts_per_tok", "-", True),
        ("samples_per_gpu", "-", True),
    ],
)
def test_a_suffix_promises_a_unit(name: str, unit: str, agrees: bool) -> None:
    assert unit_agrees(name, unit) is agrees


def test_a_function_of_more_than_ten_lines_says_what_it_is_for() -> None:
    silent = [
        f"{function.place} {function.name}"
        for function in functions()
        if not function.nested
        and not function.name.startswith("__")
        and (function.node.end_lineno or 0) - function.node.lineno >= 10
        and not ast.get_docstring(function.node)
    ]
    assert not silent, silent
