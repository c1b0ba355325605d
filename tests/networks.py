"""Published architectures written out in PyTorch, for tests of tracing: layers and widths as in their papers and code.

Each function returns a module with its example inputs, as a factory of `tonnage trace` may. They hold no weights of
anybody and are run on fake tensors.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    """Three convolutions around a shortcut (arXiv 1512.03385)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.short = short if stride > 1 or inputs != outputs else nn.Identity()
        self.last = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(x) + self.short(x))


def resnet(depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, side: int = 224, batch: int = 1):
    """ResNet-50 with the defaults."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
    ]  # fmt: skip
    inputs = width
    for level, depth in enumerate(depths):
        for place in range(depth):
            layers.append(Bottleneck(inputs, width << level, 2 if level and not place else 1))
            inputs = 4 * (width << level)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]
    return nn.Sequential(*layers), torch.zeros(batch, 3, side, side)


class Attention(nn.Module):
    """Multi-head attention with biases where asked; keys and values from elsewhere for cross-attention."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        other: int | None = None,
        bias: tuple[bool, bool, bool] = (True,) * 3,
        causal: bool = False,
    ) -> None:
        super().__init__()
        source = other or width
        self.heads, self.causal = heads, causal
        self.q = nn.Linear(width, width, bias=bias[0])
        self.k = nn.Linear(source, width, bias=bias[1])
        self.v = nn.Linear(source, width, bias=bias[0])
        self.o = nn.Linear(width, width, bias=bias[2])

    def forward(self, x: torch.Tensor, source: torch.Tensor | None = None) -> torch.Tensor:
        source = x if source is None else source
        q, k, v = (
            part(data).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part, data in ((self.q, x), (self.k, source), (self.v, source))
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.o(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A transformer layer with LayerNorm in front, or behind as in BERT; cross-attention where `other` is given."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        behind: bool = False,
        cross: bool = False,
        causal: bool = False,
        bias: tuple[bool, bool, bool] = (True,) * 3,
    ) -> None:
        super().__init__()
        self.behind = behind
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.look = Attention(width, heads, bias=bias, causal=causal)
        self.cross = Attention(width, heads, bias=bias) if cross else None
        self.feed = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, x: torch.Tensor, source: torch.Tensor | None = None) -> torch.Tensor:
        if self.behind:
            x = self.norms[0](x + self.look(x))
            return self.norms[1](x + self.feed(x))
        x = x + self.look(self.norms[0](x))
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), source)
        return x + self.feed(self.norms[-1](x))


class Vit(nn.Module):
    """ViT with a class token and learned positions (arXiv 2010.11929)."""

    def __init__(self, width: int, depth: int, heads: int, *, side: int = 224, patch: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, 4 * width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


def vit(width: int = 768, depth: int = 12, heads: int = 12, batch: int = 1):
    """ViT-B/16 at 224 px with the defaults."""
    return Vit(width, depth, heads), torch.zeros(batch, 3, 224, 224)


class Bert(nn.Module):
    """BERT with its pooler (arXiv 1810.04805)."""

    def __init__(self, width: int, depth: int, heads: int, *, vocabulary: int = 30522) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions, self.types = nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(Block(width, heads, 4 * width, behind=True) for _ in range(depth)))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1])
        x = self.words(ids) + self.positions(places) + self.types(torch.zeros_like(ids))
        return torch.tanh(self.pooler(self.blocks(self.norm(x))[:, 0]))


def bert(width: int = 768, depth: int = 12, heads: int = 12, batch: int = 1, length: int = 128):
    """BERT-base with the defaults."""
    return Bert(width, depth, heads), torch.zeros(batch, length, dtype=torch.int64)


class Whisper(nn.Module):
    """Whisper: 30 s of audio and the tokens written so far (arXiv 2212.04356; keys have no bias)."""

    def __init__(self, width: int, depth: int, heads: int, *, mels: int, vocabulary: int) -> None:
        super().__init__()
        bias = (True, False, True)
        self.first = nn.Conv1d(mels, width, 3, 1, 1)
        self.second = nn.Conv1d(width, width, 3, 2, 1)
        self.audio = nn.Parameter(torch.zeros(1500, width))
        self.encoder = nn.Sequential(*(Block(width, heads, 4 * width, bias=bias) for _ in range(depth)))
        self.heard = nn.LayerNorm(width)
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(448, width)
        self.decoder = nn.ModuleList(
            Block(width, heads, 4 * width, bias=bias, cross=True, causal=True) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, mel: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.second(F.gelu(self.first(mel)))).transpose(1, 2) + self.audio
        heard = self.heard(self.encoder(x))
        y = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.decoder:
            y = block(y, heard)
        return F.linear(self.norm(y), self.words.weight)


def whisper(width: int = 1280, depth: int = 32, heads: int = 20, batch: int = 1, tokens: int = 448):
    """Whisper-large-v3 with the defaults."""
    net = Whisper(width, depth, heads, mels=128, vocabulary=51866)
    return net, [torch.zeros(batch, 128, 3000), torch.zeros(batch, tokens, dtype=torch.int64)]


class LlamaBlock(nn.Module):
    """One layer of Llama: RMSNorm, grouped queries, a gated feed-forward (arXiv 2302.13971)."""

    def __init__(self, width: int, heads: int, kv_heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](x)
        q = self.q(y).unflatten(-1, (self.heads, self.size)).transpose(1, 2)
        k, v = (p(y).unflatten(-1, (self.kv_heads, self.size)).transpose(1, 2) for p in (self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def llama_block(width: int = 4096, heads: int = 32, kv_heads: int = 8, inner: int = 14336, tokens: int = 2048):
    """A layer of Llama-3-8B with the defaults."""
    return LlamaBlock(width, heads, kv_heads, inner), torch.zeros(1, tokens, width)


class Residual(nn.Module):
    """Two convolutions with group norm, the time step between them (diffusers' ResnetBlock2D)."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(32, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.short = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(at))[:, :, None, None]
        return self.short(x) + self.conv2(F.silu(self.norm2(y)))


class Gated(nn.Module):
    """GEGLU feed-forward of diffusers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.up(x).chunk(2, -1)
        return self.down(value * F.gelu(gate))


class Spatial(nn.Module):
    """Transformer layers over the pixels of a level, with cross-attention to the text (Transformer2DModel)."""

    def __init__(self, width: int, depth: int, text: int) -> None:
        super().__init__()
        bias = (False, False, True)
        self.norm, self.enter = nn.GroupNorm(32, width), nn.Linear(width, width)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(width),
                    Attention(width, width // 64, bias=bias),
                    nn.LayerNorm(width),
                    Attention(width, width // 64, other=text, bias=bias),
                    nn.LayerNorm(width),
                    Gated(width),
                ]
            )
            for _ in range(depth)
        )
        self.leave = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        shape = x.shape
        y = self.enter(self.norm(x).flatten(2).transpose(1, 2))
        for norm1, own, norm2, cross, norm3, feed in self.layers:  # type: ignore[misc]
            y = y + own(norm1(y))
            y = y + cross(norm2(y), text)
            y = y + feed(norm3(y))
        return x + self.leave(y).transpose(1, 2).reshape(shape)


class Unet(nn.Module):
    """UNet2DConditionModel with SDXL's extra embedding of sizes and pooled text."""

    def __init__(self, widths: tuple[int, ...], depths: tuple[int, ...], text: int, added: int) -> None:
        super().__init__()
        first, time = widths[0], 4 * widths[0]
        self.time = nn.Sequential(nn.Linear(first, time), nn.SiLU(), nn.Linear(time, time))
        self.added = nn.Sequential(nn.Linear(added, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(4, first, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        skips, width = [first], first
        for level, wide in enumerate(widths):
            for _ in range(2):
                self.down.append(nn.ModuleList([Residual(width, wide, time), self._spatial(wide, depths[level], text)]))
                skips.append(wide)
                width = wide
            if level < len(widths) - 1:
                self.down.append(nn.Conv2d(wide, wide, 3, 2, 1))
                skips.append(wide)
        self.middle = nn.ModuleList([Residual(width, width, time), self._spatial(width, depths[-1], text),
                                     Residual(width, width, time)])  # fmt: skip
        for level in reversed(range(len(widths))):
            for _ in range(3):
                block = Residual(width + skips.pop(), widths[level], time)
                self.up.append(nn.ModuleList([block, self._spatial(widths[level], depths[level], text)]))
                width = widths[level]
            if level:
                self.up.append(nn.Conv2d(width, width, 3, padding=1))
        self.norm, self.leave = nn.GroupNorm(32, first), nn.Conv2d(first, 4, 3, padding=1)

    @staticmethod
    def _spatial(width: int, depth: int, text: int) -> nn.Module:
        return Spatial(width, depth, text) if depth else nn.Identity()

    def forward(self, x: torch.Tensor, at: torch.Tensor, text: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
        when = self.time(at) + self.added(added)
        x = self.enter(x)
        kept = [x]
        for part in self.down:
            x = part(x) if isinstance(part, nn.Conv2d) else self._pair(part, x, when, text)
            kept.append(x)
        first, look, last = self.middle
        x = last(look(first(x, when), text), when)
        for part in self.up:
            if isinstance(part, nn.Conv2d):
                x = part(F.interpolate(x, scale_factor=2.0))
            else:
                x = self._pair(part, torch.cat((x, kept.pop()), 1), when, text)
        return self.leave(F.silu(self.norm(x)))

    @staticmethod
    def _pair(pair: nn.Module, x: torch.Tensor, when: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        block, look = pair  # type: ignore[misc]
        x = block(x, when)
        return look(x, text) if isinstance(look, Spatial) else x


def sdxl(side: int = 128, batch: int = 1):
    """The denoiser of Stable Diffusion XL at 1,024 px."""
    net = Unet((320, 640, 1280), (0, 2, 10), 2048, 2816)
    inputs = (torch.zeros(batch, 4, side, side), torch.zeros(batch, 320), torch.zeros(batch, 77, 2048))
    return net, [*inputs, torch.zeros(batch, 2816)]


class Graph(nn.Module):
    """A graph network: messages along edges are summed at nodes, then a linear layer (arXiv 1609.02907)."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 8)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            sent = nodes.index_select(0, edges[0])
            nodes = F.relu(layer(torch.zeros_like(nodes).index_add(0, edges[1], sent)))
        return self.head(nodes)


def graph(nodes: int = 10_000, edges: int = 60_000, width: int = 128, depth: int = 3):
    """A graph of 10,000 nodes and 60,000 edges: one sample."""
    return Graph(width, depth), [torch.zeros(nodes, width), torch.zeros(2, edges, dtype=torch.int64)]
