"""Which measurements moved a plan that nothing meets: those of the tries that came nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.additions import any_counts
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.planning.core.header import AnyLoser, Infeasible, Nearness, nearest_losers

if TYPE_CHECKING:
    from tonnage.planning.calibration_use import Run

__all__ = ["alone", "moved_losers"]


def moved_losers(
    losers: Iterable[AnyLoser], runs: Callable[[AnyLoser], Iterable[Run]], *, by: Nearness, additions: Additions
) -> tuple[CalibrationUse, ...]:
    """
    The measurements that moved what is refused, where nothing works: of the try that came nearest on each accelerator.

    Parameters
    ----------
    losers
        What was tried.
    runs : callable
        Loser -> its configuration as calibrations know it; nothing where none was arranged.
    by : callable
        How near a loser came.
    additions : Additions
        The user's own files.
    """
    if not any_counts(additions):
        return ()
    from tonnage.planning.calibration_use import calibrations_among

    parts = catalog.accelerators(additions)
    near = (loser for loser in nearest_losers(losers, by=by) if loser.accelerator in parts)
    return calibrations_among((run for loser in near for run in runs(loser)), additions=additions)


def alone(request: Serve | Batch) -> Callable[[Infeasible], Iterator[Run]]:
    """A replica that cannot do it as calibrations know it: with one request at a time."""

    def runs(loser: Infeasible) -> Iterator[Run]:
        from tonnage.planning.calibrated import at_once

        yield at_once(loser.configuration, model=request.model, lengths=request.lengths, concurrency=1.0)

    return runs
