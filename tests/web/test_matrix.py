"""Models of a machine by format: every format of the answer stands in its place, the recommended one is marked."""

import tonnage
from tonnage.web.matrix import fastest, matrix_of
from tonnage.web.view import answer_view

MACHINE = {"accelerator": "RTX 4090", "memory": "64 GB", "context": "8k"}


def test_every_row_of_the_answer_has_its_cell_and_each_model_one_recommended() -> None:
    answer = tonnage.local(**MACHINE, model="Qwen3", every_format=True)
    found = matrix_of(answer)
    assert found.heads[:-1] == ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M")
    rows = [row for _, held in found.groups for row in held]
    assert len(rows) == len(answer.rows) and dict(found.groups).keys() == {"Dense", "Mixture of experts"}
    assert sum(bool(cell.band) for row in rows for cell in row.cells) == len(answer.all_rows)
    assert all(sum(cell.best for cell in row.cells) == 1 for row in rows)
    for _, held in found.groups:
        sizes = [float(row.size.split()[0]) for row in held]
        assert sizes == sorted(sizes, reverse=True)
    # Fewer bits are read faster: along a row the shade never falls, where nothing lies in the host's memory.
    for row in rows:
        bands = [cell.band for cell in row.cells if cell.band and not cell.moved]
        assert bands == sorted(bands, reverse=True)


def test_a_list_of_best_formats_offers_the_matrix_instead() -> None:
    answer = tonnage.local(**MACHINE, model="Qwen3-8B")
    shown = answer_view(answer, key="k", path="local", given=MACHINE)
    assert shown.matrix is None and "Qwen3" in shown.blocks
    assert any("every_format=true" in change.href for change in shown.changes)


def test_named_models_are_never_the_same() -> None:
    answer = tonnage.local(**MACHINE)
    named = [row.model for _, row in fastest(answer.rows)]
    assert len(named) == len(set(named)) == 3 and named[0] == answer.rows[0].model
    assert fastest(()) == ()
