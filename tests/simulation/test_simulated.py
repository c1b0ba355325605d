"""Step arrays say what the step table says, at every whole number."""

import numpy as np
import pytest

from tonnage.domain.engine_spec import Overheads
from tonnage.domain.layout import Layout
from tonnage.simulation.simulated import requests_of, step_arrays
from tonnage.simulation.steps import MixedStep, StepTable


def table(layout: Layout, *, graphs: bool = True) -> StepTable:
    return StepTable(
        rows=(1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 8192.0),
        dense_s=(0.006, 0.006, 0.0062, 0.007, 0.009, 0.025, 0.19),
        mixed_s=(0.0061, 0.0061, 0.0063, 0.0071, 0.0092, 0.026, 0.195),
        head_s=(3e-4, 3e-4, 3.2e-4, 3.5e-4, 5e-4, 1.5e-3, 1.1e-2),
        batches=(1.0, 16.0, 64.0, 256.0),
        attention_s=((1e-4, 1e-8), (2e-4, 1.3e-7), (3e-4, 5e-7), (6e-4, 2e-6)),
        chunk_s=(2e-4, 1e-7, 2e-9),
        overheads=Overheads(step_s=1e-3, sequence_s=5e-6, prompt_s=2e-5, bubble=0.1),
        layout=layout,
        graphs=graphs,
        rung="own",
        hidden_s=0.002,
        layers=32.0,
    )


@pytest.mark.parametrize("layout", [Layout(), Layout(tp=4), Layout(pp=2), Layout(dp=4)])
@pytest.mark.parametrize("batch", [1, 3, 17, 64, 200, 256])
def test_decode_steps(layout: Layout, batch: int) -> None:
    source = table(layout)
    found = step_arrays(source, max_num_seqs=256, budget=512)
    host = found.host_s + found.host_sequence_s * batch
    busy = found.decode_s[batch] + found.context_s[batch] * batch * 1500
    assert max(busy, found.hidden_s) + host == pytest.approx(source.decode_s(batch, 1500.0))


@pytest.mark.parametrize("layout", [Layout(), Layout(tp=8), Layout(pp=2)])
def test_mixed_steps(layout: Layout) -> None:
    source = table(layout)
    found = step_arrays(source, max_num_seqs=256, budget=4096)
    decodes, chunk, context = 50, 700, 900
    busy = found.mixed_s[decodes + chunk] + found.head_s[decodes + 1] + found.chunk_s
    busy += chunk * (found.chunk_token_s + found.chunk_square_s * chunk / 2.0)
    busy += found.attend_s[decodes] + found.context_s[decodes] * decodes * context
    host = found.host_s + found.host_sequence_s * decodes + found.host_prompt_s
    expected = source.mixed_step_s(MixedStep(prompt_tokens=chunk, prompts=1.0, sequences=decodes, context=context))
    # Over pipeline stages a chunk's context is counted from the whole prompt, not from its share.
    assert busy + host == pytest.approx(expected, rel=1e-9 if layout.pp == 1 else 1e-2)


def test_more_never_costs_less() -> None:
    found = step_arrays(table(Layout()), max_num_seqs=256, budget=4096)
    for column in (found.mixed_s, found.decode_s[1:]):
        assert (np.diff(column) >= -1e-12).all()


def test_columns_that_are_not_given() -> None:
    found = requests_of(np.array([0.0, 1.0]), np.array([5, 6]), output=np.array([1, 2]))
    assert found.cached.tolist() == found.priority.tolist() == [0, 0]
    assert len(found.offsets) == 1 and found.num_ids == 0
