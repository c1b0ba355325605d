"""No point on the frontier is dominated, and every other one is."""

from hypothesis import given
from hypothesis import strategies as st

from tonnage.core.ranking import frontier


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_against_the_definition(points: list[tuple[int, int, int]]) -> None:
    kept = frontier(points, objectives=(lambda p: p[0], lambda p: p[1], lambda p: p[2]))

    def dominated(i: int) -> bool:
        return any(p != points[i] and all(a <= b for a, b in zip(p, points[i], strict=True)) for p in points)

    assert [i for i in range(len(points)) if not dominated(i)] == list(kept)
