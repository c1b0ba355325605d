"""What the user wants done, under the names that other packages import; the declarations stand in `requests`."""

from __future__ import annotations

from tonnage.domain.requests.batch import Batch
from tonnage.domain.requests.common import Filters, Lengths, LoadShape, Slo
from tonnage.domain.requests.serve import Serve
from tonnage.domain.requests.train import FineTune, Train

__all__ = ["Batch", "Filters", "FineTune", "Lengths", "LoadShape", "Serve", "Slo", "Train"]
