"""Does the kernel each mask gets on this machine agree with dense attention?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.cli.terminal.arguments import NamedArchitecture
from paribus.masks import DOCUMENT_RULES, Rule, head_rules, leaves
from paribus.model.kernels import (
    AttentionMask,
    Kernel,
    KernelChoice,
    ScoreChange,
    attend,
    choose_kernel,
)
from paribus.runtime import torch_generator
from paribus.spec import Alibi, Latent, MultiHead, RelativeBias, Stack

_LENGTH, _PREFIX, _D_HEAD = 64, 17, 64  # of the trial
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}  # of the largest dense value


@dataclass(frozen=True)
class AttentionCase:
    """One kind of attention: what decides which kernel is chosen."""

    rule: Rule
    biased: bool
    d_head: int


@dataclass(frozen=True)
class KernelCheck:
    """The kernel a case gets, and its largest error against dense, as a share of the largest
    dense value.
    """

    mask: str
    biased: bool
    used_by: tuple[str, ...]
    kernel: Kernel
    forward_error: float
    gradient_error: float
    agrees: bool


def attention_cases(architectures: Sequence[NamedArchitecture]) -> dict[AttentionCase, list[str]]:
    """Every distinct kind of attention in these architectures, and who has it."""
    names_by_case: dict[AttentionCase, list[str]] = {}
    for one in architectures:
        cases = chain.from_iterable(map(_stack_cases, one.spec.stacks))
        for case in dict.fromkeys(cases):
            names_by_case.setdefault(case, []).append(one.name)
    return names_by_case


def check_kernel(
    case: AttentionCase, used_by: Sequence[str], device: torch.device, kernel_choice: KernelChoice
) -> KernelCheck:
    """Try one case on a tiny problem; UnsupportedError if the wanted kernel cannot do it."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    view = _view(case, device)
    kernel = choose_kernel(view, dtype, case.d_head, case.biased, kernel_choice)
    tensors = _trial_tensors(case, view.n_heads, dtype, device)
    truth = _outputs_and_gradients([tensor.float() for tensor in tensors], view, "dense", case)
    ours = _outputs_and_gradients(tensors, view, kernel, case)
    errors = list(map(_relative_error, ours, truth))
    return KernelCheck(
        mask=str(case.rule),
        biased=case.biased,
        used_by=tuple(used_by),
        kernel=kernel,
        forward_error=errors[0],
        gradient_error=max(errors[1:]),
        agrees=max(errors) <= _TOLERANCE[dtype],
    )


def _relative_error(ours: Tensor, truth: Tensor) -> float:
    return ((ours.float() - truth).abs().max() / truth.abs().max()).item()


def _stack_cases(stack: Stack) -> list[AttentionCase]:
    biased = isinstance(stack.positions, RelativeBias | Alibi)
    own: list[AttentionCase] = []
    cross: list[AttentionCase] = []
    for block in stack.layers:
        width = _head_width(block.attention)
        own.append(AttentionCase(block.mask, biased, width))
        if block.cross:
            cross.append(AttentionCase(block.cross, False, width))
    return own + cross


def _head_width(attention: MultiHead | Latent) -> int:
    """Kernels ask only whether a head's width is a multiple of 8: those that are share a trial."""
    if isinstance(attention, Latent):
        width = attention.d_content + attention.d_rotary
    else:
        width = attention.d_head
    assert width
    if width % 8:
        return width
    return _D_HEAD


def _view(case: AttentionCase, device: torch.device) -> AttentionMask:
    if leaves(case.rule) & DOCUMENT_RULES:
        documents = torch.arange(_LENGTH, device=device)[None] // 13
    else:
        documents = None
    layout = BatchLayout(n_sequences=1, length=_LENGTH, prefix=_PREFIX, documents_BT=documents)
    return AttentionMask.of(case.rule, layout, layout, 2 * len(head_rules(case.rule)), device)


def _trial_tensors(
    case: AttentionCase, n_heads: int, dtype: torch.dtype, device: torch.device
) -> list[Tensor]:
    """Query, key, value, the gradient of the answer, and a bias."""
    shapes = [(1, n_heads, _LENGTH, case.d_head)] * 4 + [(1, n_heads, _LENGTH, _LENGTH)]
    tensors: list[Tensor] = []
    for place, shape in enumerate(shapes):
        draw = torch.randn(shape, generator=torch_generator(1, "doctor", place))
        tensors.append(draw.to(device, dtype))
    return tensors


def _outputs_and_gradients(
    tensors: Sequence[Tensor], view: AttentionMask, kernel: Kernel, case: AttentionCase
) -> list[Tensor]:
    """The answer, and the gradients of query, key and value."""
    *inputs, gradient, bias = tensors
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    query, key, value = inputs
    scores = ScoreChange(case.d_head**-0.5)
    if case.biased:
        scores = ScoreChange(case.d_head**-0.5, bias)
    out = attend(query, key, value, view, scores, kernel)
    return [out.detach(), *torch.autograd.grad(out, inputs, gradient)]
