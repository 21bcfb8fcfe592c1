"""Softmax cross-entropy with its gradient in place, in Triton."""

# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingParameterType=false

import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    logits,
    targets,
    weights,
    logsumexps,
    target_logits,
    n_vocab,
    stride,
    z_loss,
    LEARNING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row a program: its log-sum-exp and its answer, then its slope over its logits."""
    row = tl.program_id(0).to(tl.int64)
    line = logits + row * stride
    target, weight = tl.load(targets + row), tl.load(weights + row)
    # Each lane keeps its greatest value and a sum scaled by it; one exponential serves whichever of
    # two is greater. Lanes past the last word hold -1e30, which counts for nothing beside any word.
    most = tl.full((BLOCK,), -1e30, tl.float32)
    total, answer = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, n_vocab, BLOCK):
        word = begin + tl.arange(0, BLOCK)
        value = tl.load(line + word, mask=word < n_vocab, other=-1e30).to(tl.float32)
        less = tl.exp(-tl.abs(value - most))
        total = tl.where(value <= most, total + less, total * less + 1)
        most = tl.maximum(most, value)
        answer += tl.where(word == target, value, 0.0)
    top = tl.max(most, 0)
    spread = top + tl.log(tl.sum(total * tl.exp(most - top), 0))
    tl.store(logsumexps + row, spread)
    tl.store(target_logits + row, tl.sum(answer, 0))
    if LEARNING:
        factor = weight * (1 + 2 * z_loss * spread)
        for begin in range(0, n_vocab, BLOCK):
            word = begin + tl.arange(0, BLOCK)
            value = tl.load(line + word, mask=word < n_vocab, other=0.0).to(tl.float32)
            slope = tl.exp(value - spread) * factor - tl.where(word == target, weight, 0.0)
            tl.store(line + word, slope.to(logits.dtype.element_ty), mask=word < n_vocab)
