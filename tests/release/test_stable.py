"""What is promised holds: a name that is gone, or of another type, is announced or fails here."""

from tools.stable import breaks, kept, listed, names

NOTE = {"since": "2026-11-22", "removed": "0.3.0", "instead": "another"}


def test_every_promised_name_is_there_or_announced() -> None:
    assert breaks(kept(), names(), listed()) == [], (
        "list it in tools/stable.toml, then `python -m tools.stable --write`"
    )


def test_the_list_covers_every_kind_of_name() -> None:
    kinds = {name.split(" ")[0] for name in kept()}
    assert kinds == {"python", "command", "option", "field", "answer", "exit", "variable", "section", "schema"}
    assert len(kept()) > 2000


def test_a_break_is_found_and_an_addition_is_none() -> None:
    before = {"answer serve.options[].bill.usd": "number", "python fit": "model, fields", "option fit --top": "integer"}
    assert breaks(before, {**before, "answer serve.options[].bill.kwh": "number"}, {}) == []
    assert (
        breaks(before, {**before, "answer serve.options[].bill.usd": "null | number"}, {}) == []
    )  # may be absent as well
    assert breaks(before, {**before, "python fit": "model, additions, fields"}, {}) == []
    assert breaks(before, {**before, "python fit": "model"}, {}) == ["another: python fit: model, fields -> model"]
    assert breaks(before, {**before, "answer serve.options[].bill.usd": "string"}, {}) == [
        "another: answer serve.options[].bill.usd: number -> string"
    ]
    less = {name: said for name, said in before.items() if name != "option fit --top"}
    assert breaks(before, less, {}) == ["gone: option fit --top"]
    assert breaks(before, less, {"option fit --top": NOTE}) == []


def test_what_is_announced_says_since_when_until_when_and_what_instead() -> None:
    for name, one in listed().items():
        assert {"since", "removed", "instead"} <= set(one), name
