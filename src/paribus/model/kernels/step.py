"""The parts of a step of one token a text, each as one kernel on CUDA; see `step_triton`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from paribus.model.norm import Norm
from paribus.spec import LayerNorm, RMSNorm
from paribus.spec.architecture import Activation

# those that `step_triton` computes
STEP_ACTIVATIONS: frozenset[Activation] = frozenset({"relu", "gelu", "gelu_tanh", "silu"})
_kernels: Any
try:
    from paribus.model.kernels import step_triton as _kernels
except ImportError:  # triton comes with torch's CUDA builds alone
    _kernels = None

MAX_ROWS = 64  # of a product; for more of them torch's own is as fast
MAX_NORM_WIDTH = 8192
MAX_EARLY_ROWS = 1
_ROW_ELEMENTS = 8192  # weights that a program has at hand, for one row
_SOME_OUTPUTS, _MANY_OUTPUTS = 1024, 16384  # from which on a program has more of them
_N_STAGES, _TILE_BYTES = 3, 96 * 1024  # tiles that are fetched ahead, and their size
_SLOTS = 32  # keys that a program looks at together
_MAX_PARTS = 16  # of the keys of a head
_MANY_PROGRAMS = 2048  # that keep a device busy


def has_step_kernels(device: torch.device) -> bool:
    """Can they run on this device?"""
    return _kernels is not None and device.type == "cuda"


def starts_early(device: torch.device) -> bool:
    """Can a kernel begin before the one before it has ended? From Hopper on."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9


def product(
    rows_MI: Tensor,
    weight_OI: Tensor,
    bias_O: Tensor | None,
    norm: Norm | None = None,
    activation: Activation | None = None,
    is_gated: bool = False,
    residual_MO: Tensor | None = None,
) -> Tensor:
    """act(norm(rows) Wᵀ + bias) + residual, [M, O], for a few rows.

    Of gated weights the first half is the gate: act(gate) · values.
    """
    assert _kernels is not None
    n_rows, n_in = rows_MI.shape
    assert weight_OI.is_contiguous()
    assert n_rows <= MAX_ROWS
    n_out = len(weight_OI) // (2 if is_gated else 1)
    out_MO = rows_MI.new_empty((n_rows, n_out))
    tensors = (weight_OI, bias_O, *_norm_tensors(norm), residual_MO, out_MO)
    shared: dict[str, Any] = {
        "eps": 0.0 if norm is None else norm.spec.eps,
        "N_IN": n_in,
        "NORM": _norm_kind(norm),
        "ACTIVATION": activation or "none",
        "GATED": is_gated,
        **_early(rows_MI),
    }
    if n_rows == 1:
        chunk = min(_power_of_two(n_in), _ROW_ELEMENTS)
        outputs = max(1, _ROW_ELEMENTS // chunk // (4 if is_gated else 2))
        launch = _kernels.one_row_product[(_ceil(n_out, outputs),)]
        launch(rows_MI, *tensors, n_out, OUTPUTS=outputs, CHUNK=chunk, num_warps=4, **shared)
    else:
        n_rows_held = max(16, _power_of_two(n_rows))
        tile = _tile(n_in, n_out, n_rows_held, rows_MI.element_size() * (2 if is_gated else 1))
        launch = _kernels.few_rows_product[(_ceil(n_out, tile.outputs),)]
        launch(
            rows_MI,
            *tensors,
            n_rows,
            n_out,
            ROWS=n_rows_held,
            OUTPUTS=tile.outputs,
            CHUNK=tile.chunk,
            num_warps=tile.n_warps,
            num_stages=_N_STAGES,
            **shared,
        )
    return out_MO


@dataclass(frozen=True, eq=False)
class QueryView:
    """How the queries of a step see keys."""

    visible: Tensor | None = None  # [1 or B, 1 or H, 1, S]; None: all, or all before it
    bias: Tensor | None = None  # [1 or B, H, 1, S]
    cosine: Tensor | None = None  # [B, 1, 1, E/2]
    sine: Tensor | None = None


def attend_once(
    heads_BO: Tensor,
    keys_BGSE: Tensor,
    values_BGSE: Tensor,
    view: QueryView,
    n_heads: int,
    scale: float,
    place_B1: Tensor | None = None,
) -> Tensor:
    """What one query of each text finds, [B, H · E].

    Each row holds the query heads of a text. With `place_B1` also its key and value heads: they
    are written to the slot of that place, and later slots are not seen.
    """
    assert _kernels is not None
    n_texts, n_kv_heads, n_slots, width = keys_BGSE.shape
    assert keys_BGSE.stride(3) == values_BGSE.stride(3) == 1
    assert place_B1 is None or n_texts == 1 or place_B1.stride(0) == 1
    out_BO = heads_BO.new_empty((n_texts, n_heads * width))
    n_parts, partial = _n_parts(n_texts * n_heads, n_slots), None
    if n_parts > 1:
        partial = heads_BO.new_empty((n_texts * n_heads, n_parts, width + 2), dtype=torch.float32)
    early = _early(heads_BO)
    _kernels.one_query_attention[(n_texts, n_heads, n_parts)](
        heads_BO,
        keys_BGSE,
        values_BGSE,
        place_B1,
        view.visible,
        view.bias,
        view.cosine,
        view.sine,
        out_BO,
        partial,
        n_slots,
        scale,
        *_steps(view.visible),
        *_steps(view.bias),
        *keys_BGSE.stride()[:3],
        *values_BGSE.stride()[:3],
        N_HEADS=n_heads,
        N_KV_HEADS=n_kv_heads,
        WIDTH=width,
        WRITES=place_B1 is not None,
        SLOTS=_SLOTS,
        N_PARTS=n_parts,
        num_warps=1,
        **early,
    )
    if partial is not None:
        _kernels.join_parts[(n_texts * n_heads,)](
            partial, out_BO, WIDTH=width, N_PARTS=n_parts, num_warps=1, **early
        )
    return out_BO


def _early(rows: Tensor) -> dict[str, bool]:
    """Whether kernels overlap. With many rows those that wait take the room of those that run."""
    is_early = len(rows) <= MAX_EARLY_ROWS and starts_early(rows.device)
    return {"EARLY": True, "launch_pdl": True} if is_early else {"EARLY": False}


class _Tile(NamedTuple):
    """What a program with several rows has at hand at once."""

    outputs: int
    chunk: int
    n_warps: int


def _tile(n_in: int, n_out: int, n_rows: int, n_bytes: int) -> _Tile:
    """The fastest of those that were tried on an H200, as far as it fits into fast memory."""
    if n_out > _MANY_OUTPUTS:
        tile = _Tile(outputs=128, chunk=64, n_warps=8)
    elif n_out > _SOME_OUTPUTS:
        tile = _Tile(outputs=32, chunk=256, n_warps=4)
    else:
        tile = _Tile(outputs=16, chunk=256, n_warps=4)
    chunk = min(tile.chunk, max(16, _power_of_two(n_in)))
    while _N_STAGES * (n_rows + tile.outputs) * chunk * n_bytes > _TILE_BYTES:
        chunk //= 2
    return tile._replace(chunk=chunk)


def _n_parts(n_heads: int, n_slots: int) -> int:
    """Into how many parts the keys of each head go: more where heads are few."""
    n_parts = 1
    while n_parts < _MAX_PARTS and n_parts * 2 * n_heads <= _MANY_PROGRAMS:
        n_parts *= 2
    while n_parts > 1 and n_parts * _SLOTS > n_slots:
        n_parts //= 2
    return n_parts


def _norm_tensors(norm: Norm | None) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if norm is None else (norm.weight, norm.bias)


def _norm_kind(norm: Norm | None) -> str:
    if norm is None:
        return "none"
    match norm.spec:
        case LayerNorm():
            return "layer"
        case RMSNorm():
            return "rms"


def _steps(tensor: Tensor | None) -> tuple[int, int]:
    """From text to text and from head to head; 0 where all share one."""
    if tensor is None:
        return 0, 0
    by_text, by_head, _, by_slot = tensor.stride()
    assert by_slot == 1
    return by_text if tensor.shape[0] > 1 else 0, by_head if tensor.shape[1] > 1 else 0


def _power_of_two(width: int) -> int:
    """The least power of two that is as much."""
    return 1 << (width - 1).bit_length()


def _ceil(number: int, by: int) -> int:
    return -(-number // by)
