"""The surveys of `make attack`, sampled: bodies, names, and what contradicts itself."""

from tools.attack.bodies import LONGEST, asked, bodies, face_of, questions
from tools.attack.contradictions import configs, contradictions, logs
from tools.attack.names import HIDDEN, doors, hidden_in, hidden_names

QUICK = ("fit", "cost/rent-or-buy", "predict serve", "models", "plan/serve", "local")


def test_refusals_at_every_entrance_are_short_sentences() -> None:
    """Their time is the machine's; `make attack` looks at it, and at the other questions."""
    chosen = [body for body in bodies(lambda n: n % 89 == 0) if body.question in QUICK][::2]
    found = [asked(face_of(number), body) for number, body in enumerate(chosen)]
    assert sum(map(bool, found)) >= 10 and max(len(why.encode()) for why in found) <= LONGEST
    assert {body.question for body in bodies(lambda n: n % 89 == 0)} == set(questions())


def test_no_command_shows_a_hidden_character() -> None:
    found = hidden_names(0.004)
    assert found.count >= 30 and not found.findings
    assert all(hidden_in(f"a{hidden}b") for hidden in HIDDEN if hidden not in "\n\t") and not hidden_in("模型-é\n")
    assert len(HIDDEN) >= 50 and {door.command[0] for door in doors()} >= {"fit", "plan", "export", "data", "web"}


def test_what_contradicts_itself_is_refused_or_named() -> None:
    assert len([*configs(), *logs()]) >= 1_000
    found = contradictions(0.1)
    assert found.count >= 100 and not found.findings
