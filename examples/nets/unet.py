"""A small U-Net for segmentation, as a user's own file: `tonnage trace examples/nets/unet.py:make_unet`."""

import torch
from torch import nn


def double(inputs: int, outputs: int) -> nn.Sequential:
    """Two convolutions with their norms."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Unet(nn.Module):
    """Down four times, up four times, with shortcuts between (arXiv 1505.04597)."""

    def __init__(self, width: int = 64, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(5)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip((3, *widths[:-1]), widths, strict=True))
        self.lift = nn.ModuleList(nn.ConvTranspose2d(w, w // 2, 2, 2) for w in widths[:0:-1])
        self.up = nn.ModuleList(double(w, w // 2) for w in widths[:0:-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of every pixel."""
        kept = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        kept.pop()
        for lift, block in zip(self.lift, self.up, strict=True):
            x = block(torch.cat((kept.pop(), lift(x)), 1))
        return self.head(x)


def make_unet() -> tuple[nn.Module, torch.Tensor]:
    """The module and an example input: one image of 512 px."""
    return Unet(), torch.zeros(1, 3, 512, 512)
