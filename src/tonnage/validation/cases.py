"""
How does a measured row become a case? By its layout, and for inference by what the model answers with.

Rows of vision, diffusion, speech and encoder models are batches through a network; all other inference rows are
served language models. The rules of each kind stand in `serve_cases`, `infer_cases` and `train_cases`.
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.case import Case
from tonnage.errors import BadFact
from tonnage.validation.infer_cases import infer_case
from tonnage.validation.rows import Row, text
from tonnage.validation.serve_cases import serve_case_of_point, serve_case_of_sample
from tonnage.validation.train_cases import train_case

__all__ = ["case_of", "kind_of"]

_NETWORKS: Final = {"embedding", "vision", "diffusion", "speech", "recommender"}


def kind_of(row: Row) -> str:
    """The kind of case a row becomes: serve, train or infer."""
    if row.layout == "training":
        return "train"
    if row.layout == "serving":
        return "serve"
    return "infer" if text(row, "kind") in _NETWORKS or text(row, "phase") == "encode" else "serve"


def case_of(row: Row) -> Case:
    """
    The case that a row measured.

    Raises
    ------
    BadFact
        The row does not say enough, or a cell cannot be read; the sentence begins with the kind of reason.
    """
    if not text(row, "accelerator_id"):
        raise BadFact("accelerator not in the catalogue: the row names none")
    match kind_of(row):
        case "train":
            return train_case(row)
        case "infer":
            return infer_case(row)
    return serve_case_of_sample(row) if row.layout == "serving" else serve_case_of_point(row)
