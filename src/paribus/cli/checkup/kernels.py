"""Does the kernel each mask gets on this machine agree with dense attention?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paribus.batch import Layout
from paribus.cli.terminal.arguments import Asked
from paribus.masks import Rule, SameDocument, heads, leaves
from paribus.model.kernels import Kernel, View, Wanted, attend, choose
from paribus.runtime import stream
from paribus.spec import Alibi, Latent, MultiHead, RelativeBias, Stack

_LENGTH, _PREFIX, _D_HEAD = 64, 17, 64  # of the trial
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}  # of the largest dense value


@dataclass(frozen=True)
class Case:
    """One kind of attention: what decides which kernel is chosen."""

    rule: Rule
    biased: bool
    d_head: int


@dataclass(frozen=True)
class Agreement:
    """The kernel a case gets, and its largest error against dense, as a share of the largest dense value."""

    mask: str
    biased: bool
    used_by: tuple[str, ...]
    kernel: Kernel
    forward_error: float
    gradient_error: float
    agrees: bool


def cases(given: Sequence[Asked]) -> dict[Case, list[str]]:
    """Every distinct kind of attention in these architectures, and who has it."""
    found: dict[Case, list[str]] = {}
    for one in given:
        for case in dict.fromkeys(case for stack in one.spec.stacks for case in _of(stack)):
            found.setdefault(case, []).append(one.name)
    return found


def agreement(case: Case, used_by: Sequence[str], device: torch.device, wanted: Wanted) -> Agreement:
    """Try one case on a tiny problem; UnsupportedError if the wanted kernel cannot do it."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    view = _view(case, device)
    kernel = choose(view, dtype, case.d_head, case.biased, wanted)
    tensors = _trial(case, view.n_heads, dtype, device)
    truth = _answers([tensor.float() for tensor in tensors], view, "dense", case)
    ours = _answers(tensors, view, kernel, case)
    errors = [((a.float() - b).abs().max() / b.abs().max()).item() for a, b in zip(ours, truth, strict=True)]
    return Agreement(
        mask=str(case.rule),
        biased=case.biased,
        used_by=tuple(used_by),
        kernel=kernel,
        forward_error=errors[0],
        gradient_error=max(errors[1:]),
        agrees=max(errors) <= _TOLERANCE[dtype],
    )


def _of(stack: Stack) -> list[Case]:
    biased = isinstance(stack.positions, RelativeBias | Alibi)
    own = [Case(block.mask, biased, _width(block.attention)) for block in stack.layers]
    cross = [Case(block.cross, False, _width(block.attention)) for block in stack.layers if block.cross]
    return own + cross


def _width(attention: MultiHead | Latent) -> int:
    """Kernels ask only whether a head's width is a multiple of 8: those that are share a trial."""
    width = attention.d_content + attention.d_rotary if isinstance(attention, Latent) else attention.d_head
    assert width
    return width if width % 8 else _D_HEAD


def _view(case: Case, device: torch.device) -> View:
    documents = torch.arange(_LENGTH, device=device)[None] // 13 if SameDocument() in leaves(case.rule) else None
    layout = Layout(1, _LENGTH, prefix=_PREFIX, documents_BT=documents)
    return View.of(case.rule, layout, layout, 2 * len(heads(case.rule)), device)


def _trial(case: Case, n_heads: int, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """Query, key, value, the gradient of the answer, and a bias."""
    shapes = [(1, n_heads, _LENGTH, case.d_head)] * 4 + [(1, n_heads, _LENGTH, _LENGTH)]
    draws = [torch.randn(shape, generator=stream(1, "doctor", place)) for place, shape in enumerate(shapes)]
    return [draw.to(device, dtype) for draw in draws]


def _answers(tensors: Sequence[Tensor], view: View, kernel: Kernel, case: Case) -> list[Tensor]:
    """The answer, and the gradients of query, key and value."""
    *inputs, gradient, bias = tensors
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    query, key, value = inputs
    out = attend(query, key, value, view, case.d_head**-0.5, bias if case.biased else None, kernel)
    return [out.detach(), *torch.autograd.grad(out, inputs, gradient)]
