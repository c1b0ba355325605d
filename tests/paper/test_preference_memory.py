"""Published peaks of preference tuning: Colossal-AI's table, whose sequences all have the stated length, and others."""

from tools.rl.memory import points


def test_published_peaks_of_preference_tuning() -> None:
    rows = points()
    errors = {point.cells["id"]: point.predicted() / point.measured - 1.0 for point in rows}
    exact = [error for name, error in errors.items() if name.startswith("coati")]
    assert len(exact) == 17 and max(abs(error) for error in exact) <= 0.12
    assert sum(abs(error) <= 0.10 for error in exact) >= 16
    drawn = {name: error for name, error in errors.items() if name.startswith(("trl-grpo", "verl"))}
    assert len(drawn) == 5 and sum(abs(error) <= 0.10 for error in drawn.values()) >= 4
    assert sum(abs(error) <= 0.10 for error in errors.values()) >= 23
