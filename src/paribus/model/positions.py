"""Where a token stands: added to embeddings, turned into queries and keys, or added to scores."""

import math
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor, nn

from paribus.batch import BatchLayout
from paribus.masks import Full, Padding, Rule, stays_in_document
from paribus.model.kernels import AttentionMask
from paribus.model.lookup import look_up
from paribus.spec import (
    Alibi,
    LearnedPositions,
    NoPositions,
    RelativeBias,
    RotaryPositions,
    SinusoidalPositions,
    Stack,
    is_bidirectional,
)


@dataclass(frozen=True, eq=False)
class Rotation:
    """The rotation of each position: channel i is paired with i + E/2."""

    cosine: Tensor  # [T, E/2] or [B, 1, T, E/2]
    sine: Tensor

    def __call__(self, heads_BHTE: Tensor) -> Tensor:
        left, right = heads_BHTE.float().chunk(2, -1)
        out = torch.cat(
            [left * self.cosine - right * self.sine, right * self.cosine + left * self.sine],
            -1,
        )
        return out.to(heads_BHTE.dtype)


class Positions(nn.Module):
    """All a stack knows of positions; its one table, if any, is `weight`."""

    def __init__(self, stack: Stack, max_length: int, d_model: int):
        super().__init__()
        self.spec = stack.positions
        self.n_heads = stack.layers[0].attention.n_heads
        self.bidirectional = is_bidirectional(stack)
        self.weight: nn.Parameter | None
        self.register_parameter("weight", None)
        match self.spec:
            case LearnedPositions(offset=offset):
                self.weight = nn.Parameter(torch.empty(max_length + offset, d_model))
            case RelativeBias(n_buckets=n_buckets):
                self.weight = nn.Parameter(torch.empty(n_buckets, self.n_heads))
            case NoPositions() | SinusoidalPositions() | RotaryPositions() | Alibi():
                pass
            case other:
                assert_never(other)

    def position_embeddings(self, layout: BatchLayout, d_model: int, like: Tensor) -> Tensor | None:
        """What is added to the embeddings: [T, D] or [B, T, D]."""
        match self.spec:
            case LearnedPositions(offset=offset):
                return self._learned_embeddings(layout, offset)
            case SinusoidalPositions(theta=theta):
                return sinusoids(layout.positions(like.device), d_model, theta).to(like.dtype)
            case NoPositions() | RotaryPositions() | RelativeBias() | Alibi():
                return None

    def _learned_embeddings(self, layout: BatchLayout, offset: int) -> Tensor:
        """Rows of the table of positions; on CUDA a cut of it where they follow each other: its
        gradient is a copy.
        """
        assert self.weight is not None
        device, first = self.weight.device, layout.start + offset
        if device.type == "cuda" and layout.positions_BT is None and layout.places_BT is None:
            return self.weight[first : first + layout.length]
        return look_up(layout.positions(device) + offset, self.weight)

    def rotation(self, layout: BatchLayout, width: int, device: torch.device) -> Rotation | None:
        """How queries and keys of `width` rotary channels are turned."""
        if not isinstance(self.spec, RotaryPositions):
            return None
        return self.rotation_by(layout.positions(device), width)

    def rotation_by(self, positions: Tensor, width: int) -> Rotation:
        """How rotary channels are turned at some positions, [T] or [B, T]."""
        assert isinstance(self.spec, RotaryPositions)
        turn = _rotary_cos_sin_op if positions.device.type == "cuda" else rotary_cos_sin
        return Rotation(*turn(positions, width, float(self.spec.theta)))

    def score_bias(
        self, queries: BatchLayout, keys: BatchLayout, device: torch.device
    ) -> Tensor | None:
        """What is added to the scores: [1 or B, H, T, S]."""
        if not isinstance(self.spec, RelativeBias | Alibi):
            return None
        ahead = keys.positions(device)[..., None, :] - queries.positions(device)[..., :, None]
        ahead_BTS = ahead if ahead.dim() == 3 else ahead[None]
        if isinstance(self.spec, Alibi):
            return -ahead_BTS[:, None].abs() * alibi_slopes(self.n_heads, device)[:, None, None]
        assert self.weight is not None
        table_BTSH = look_up(
            relative_buckets(ahead_BTS, self.spec, self.bidirectional), self.weight
        )
        return table_BTSH.movedim(-1, 1)


def source_positions(rule: Rule, source: BatchLayout, device: torch.device) -> Tensor:
    """What rotary cross-attention reads of a source, [S] or [B, S]: the place in all of it, or in
    its own document where a text sees no other.
    """
    if stays_in_document(rule):
        return source.positions(device)
    return source.places(device)


def positions_after_source(mask: AttentionMask, positions: Tensor) -> Tensor:
    """What rotary cross-attention reads of each query, [T] or [B, T]: its own position, counted on
    from the last of the source's `positions` that it sees.
    """
    own = mask.queries.positions(mask.device)
    if mask.rule == Full():
        return own + positions.amax(-1, keepdim=positions.dim() == 2) + 1
    if mask.rule == Padding():
        assert mask.keys.real_BT is not None
        seen = mask.keys.real_BT[:, None]
    else:
        seen = mask.dense_mask[:, 0]
    positions = positions[:, None] if positions.dim() == 2 else positions
    return own + torch.where(seen, positions, -1).amax(-1) + 1


def rotary_cos_sin(positions: Tensor, width: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines, [T, E/2] or [B, 1, T, E/2], at rates theta^(-2i/E)."""
    # Rounded as transformers rounds: over thousands of positions another order of the same steps
    # would show.
    rates = 1.0 / theta ** (
        torch.arange(0, width, 2, dtype=torch.float32, device=positions.device) / width
    )
    angles = positions.float()[..., None] * rates
    angles = angles[:, None] if angles.dim() == 3 else angles
    return angles.cos(), angles.sin()


# An operation of its own: a compiler that sees through it computes powers and cosines anew for
# every head and layer.
_rotary_cos_sin_op = torch.library.custom_op("paribus::rotations", rotary_cos_sin, mutates_args=())
_rotary_cos_sin_op.register_fake(rotary_cos_sin)


def sinusoids(positions: Tensor, d_model: int, theta: float) -> Tensor:
    """Sines in even channels, cosines in odd ones, at rates theta^(-2i/D)."""
    channels = torch.arange(d_model, device=positions.device)
    rates = theta ** (-(channels // 2 * 2).float() / d_model)
    angles = positions.float()[..., None] * rates
    return torch.where(channels % 2 == 0, angles.sin(), angles.cos())


def alibi_slopes(n_heads: int, device: torch.device) -> Tensor:
    """2^(-8/n), 2^(-16/n), …; for other than powers of two, the odd slopes of the next power
    fill in.
    """
    whole = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    extra = [2 ** (-4 * (2 * i + 1) / whole) for i in range(n_heads - whole)]
    return torch.tensor(slopes + extra, device=device)


def relative_buckets(
    relative_positions: Tensor, spec: RelativeBias, is_bidirectional: bool
) -> Tensor:
    """T5's bucket of each distance: exact when small, logarithmic up to max_distance, the last
    beyond.
    """
    n_buckets = spec.n_buckets // 2 if is_bidirectional else spec.n_buckets
    if is_bidirectional:
        offset = (relative_positions > 0).long() * n_buckets
    else:
        offset = torch.zeros_like(relative_positions)
    if is_bidirectional:
        distance = relative_positions.abs()
    else:
        distance = (-relative_positions).clamp(min=0)
    n_exact = n_buckets // 2
    growth = torch.log(distance.clamp(min=1).float() / n_exact) / math.log(
        spec.max_distance / n_exact
    )
    far = (n_exact + (growth * (n_buckets - n_exact)).long()).clamp(max=n_buckets - 1)
    return offset + torch.where(distance < n_exact, distance, far)
