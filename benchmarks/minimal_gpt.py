"""A GPT as one would write it by hand, for measure: fused projections, SDPA, one compiled graph
from tokens to loss.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paribus.model import Transformer


class Block(nn.Module):
    def __init__(self, width: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inward, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        heads = (
            self.inward(self.norm_1(x)).view(n, length, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        )
        seen = F.scaled_dot_product_attention(*heads.unbind(), is_causal=True)
        x = x + self.output(seen.transpose(1, 2).reshape(n, length, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class MinimalGPT(nn.Module):
    def __init__(self, n_words: int, width: int, n_layers: int, n_heads: int, length: int):
        super().__init__()
        self.words, self.places = nn.Embedding(n_words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, n_heads) for _ in range(n_layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.words.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


@torch.no_grad()
def twin(model: Transformer, length: int) -> MinimalGPT:
    """The same weights in a minimal GPT."""
    spec = model.architecture
    table = model.embedding.weight
    own = MinimalGPT(spec.n_vocab, spec.d_model, spec.n_layers, spec.attention.n_heads, length).to(
        table.device
    )
    theirs = model.state_dict()
    own.words.weight.copy_(table)
    own.places.weight.copy_(theirs["stack.positions.weight"][:length])
    for number, block in enumerate(own.blocks):
        place = f"stack.layers.{number}"
        for kind in ("weight", "bias"):
            parts = [
                theirs[f"{place}.attention.{name}.{kind}"] for name in ("query", "key", "value")
            ]
            getattr(block.inward, kind).copy_(torch.cat(parts))
            getattr(block.output, kind).copy_(theirs[f"{place}.attention.output.{kind}"])
            getattr(block.norm_1, kind).copy_(theirs[f"{place}.attention_norm.{kind}"])
            getattr(block.norm_2, kind).copy_(theirs[f"{place}.feed_forward_norm.{kind}"])
            getattr(block.up, kind).copy_(theirs[f"{place}.feed_forward.up.{kind}"])
            getattr(block.down, kind).copy_(theirs[f"{place}.feed_forward.down.{kind}"])
    for kind in ("weight", "bias"):
        getattr(own.norm, kind).copy_(theirs[f"stack.final_norm.{kind}"])
    return own
