"""A graph network, as a user's own file: messages along edges, sums at nodes (GraphSAGE, arXiv 1706.02216)."""

from itertools import pairwise

import torch
from torch import nn


class Sage(nn.Module):
    """Three rounds of messages over one graph."""

    def __init__(self, features: int = 100, width: int = 256, classes: int = 47) -> None:
        super().__init__()
        sizes = (features, width, width, classes)
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.others = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(sizes))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Scores of every node."""
        source, target = edges
        for level, (own, others) in enumerate(zip(self.own, self.others, strict=True)):
            mean = torch.zeros_like(x).index_add(0, target, x[source])
            x = own(x) + others(mean)
            x = x if level == len(self.own) - 1 else torch.relu(x)
        return x


def make_graph() -> tuple[nn.Module, list[torch.Tensor]]:
    """The module with a sampled part of a graph: 20,000 nodes, 200,000 edges."""
    return Sage(), [torch.zeros(20_000, 100), torch.zeros(2, 200_000, dtype=torch.int64)]
