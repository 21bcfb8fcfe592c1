"""What a step of one token a text computes, in Triton: products of a few rows with the norm before
them and the activation or the residual after them, and attention of a single query that also writes
its own key.

A step of a small model is bound by the number of its kernels, so each does as much as it can. Sums
are in float32, in a fixed order. With EARLY a kernel begins before the one before it has ended: it
fetches weights, which nobody changes, and then waits.
"""

# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingParameterType=false, reportPossiblyUnboundVariable=false

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def _begin_next(EARLY: tl.constexpr):
    if EARLY:
        gdc_launch_dependents()


@triton.jit
def _wait_for_last(EARLY: tl.constexpr):
    if EARLY:
        gdc_wait()


@triton.jit
def _activated(value, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        value = tl.maximum(value, 0.0)
    elif ACTIVATION == "gelu":
        value = 0.5 * value * (1.0 + tl.math.erf(value * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh":
        inner = 0.7978845608028654 * (value + 0.044715 * value * value * value)
        value = value * tl.sigmoid(2.0 * inner)
    elif ACTIVATION == "silu":
        value = value * tl.sigmoid(value)
    else:
        tl.static_assert(ACTIVATION == "none", "the kernels of a step lack this activation")
    return value


@triton.jit
def one_row_product(
    row,
    weight,
    bias,
    gain,
    shift,
    residual,
    out,
    n_out,
    eps,
    N_IN: tl.constexpr,
    NORM: tl.constexpr,
    ACTIVATION: tl.constexpr,
    GATED: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CHUNK: tl.constexpr,
    EARLY: tl.constexpr,
):
    """Some outputs a program. With a norm, CHUNK is at least N_IN. GATED weights are those of the
    gate, then those of the values.
    """
    _begin_next(EARLY)
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    is_output = output < n_out
    channel = tl.arange(0, CHUNK)
    line = weight + output.to(tl.int64)[:, None] * N_IN + channel[None, :]
    inside = is_output[:, None] & (channel < N_IN)[None, :]
    factors = tl.load(line, mask=inside, other=0.0)
    if GATED:
        second = tl.load(line + n_out.to(tl.int64) * N_IN, mask=inside, other=0.0)
    _wait_for_last(EARLY)
    values = tl.load(row + channel, mask=channel < N_IN, other=0.0).to(tl.float32)
    if NORM != "none":
        centred = values
        if NORM == "layer":
            centred = tl.where(channel < N_IN, values - tl.sum(values, 0) / N_IN, 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, 0) / N_IN + eps)
        values = centred * scale * tl.load(gain + channel, mask=channel < N_IN, other=0.0)
        if shift is not None:
            values += tl.load(shift + channel, mask=channel < N_IN, other=0.0)
    total = tl.sum(factors.to(tl.float32) * values[None, :], 1)
    if GATED:
        other = tl.sum(second.to(tl.float32) * values[None, :], 1)
    for start in tl.range(CHUNK, N_IN, CHUNK):
        inside = is_output[:, None] & (start + channel < N_IN)[None, :]
        more = tl.load(row + start + channel, mask=start + channel < N_IN, other=0.0)
        more = more.to(tl.float32)[None, :]
        total += tl.sum(tl.load(line + start, mask=inside, other=0.0).to(tl.float32) * more, 1)
        if GATED:
            gated = tl.load(line + n_out.to(tl.int64) * N_IN + start, mask=inside, other=0.0)
            other += tl.sum(gated.to(tl.float32) * more, 1)
    if bias is not None:
        total += tl.load(bias + output, mask=is_output, other=0.0)
        if GATED:
            other += tl.load(bias + n_out + output, mask=is_output, other=0.0)
    total = _activated(total, ACTIVATION)
    if GATED:
        total *= other
    if residual is not None:
        total += tl.load(residual + output, mask=is_output, other=0.0).to(tl.float32)
    tl.store(out + output, total.to(out.dtype.element_ty), mask=is_output)


@triton.jit
def few_rows_product(
    rows,
    weight,
    bias,
    gain,
    shift,
    residual,
    out,
    n_rows,
    n_out,
    eps,
    N_IN: tl.constexpr,
    NORM: tl.constexpr,
    ACTIVATION: tl.constexpr,
    GATED: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CHUNK: tl.constexpr,
    EARLY: tl.constexpr,
):
    """All rows and some outputs a program; see `one_row_product`."""
    _begin_next(EARLY)
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    is_output = output < n_out
    row = tl.arange(0, ROWS)
    is_row = row < n_rows
    channel = tl.arange(0, CHUNK)
    place = rows + row[:, None] * N_IN + channel[None, :]
    line = weight + output.to(tl.int64)[None, :] * N_IN + channel[:, None]
    _wait_for_last(EARLY)
    mean = tl.zeros((ROWS,), tl.float32)
    scale = tl.zeros((ROWS,), tl.float32)
    if NORM != "none":
        squares = tl.zeros((ROWS,), tl.float32)  # of the distances from the mean so far
        for start in tl.range(0, N_IN, CHUNK):
            inside = (start + channel < N_IN)[None, :]
            part = tl.load(place + start, mask=is_row[:, None] & inside, other=0.0).to(tl.float32)
            if NORM == "layer":
                n_new = tl.minimum(N_IN - start, CHUNK).to(tl.float32)
                new_mean = tl.sum(part, 1) / n_new
                part = tl.where(inside, part - new_mean[:, None], 0.0)
                step = new_mean - mean
                squares += step * step * (start * n_new / (start + n_new))
                mean += step * (n_new / (start + n_new))
            squares += tl.sum(part * part, 1)
        scale = tl.rsqrt(squares / N_IN + eps)
    total = tl.zeros((ROWS, OUTPUTS), tl.float32)
    other = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for start in tl.range(0, N_IN, CHUNK):
        inside = start + channel < N_IN
        part = tl.load(place + start, mask=is_row[:, None] & inside[None, :], other=0.0)
        if NORM != "none":
            centred = (part.to(tl.float32) - mean[:, None]) * scale[:, None]
            normed = centred * tl.load(gain + start + channel, mask=inside, other=0.0)[None, :]
            if shift is not None:
                normed += tl.load(shift + start + channel, mask=inside, other=0.0)[None, :]
            part = normed.to(part.dtype)
        is_factor = inside[:, None] & is_output[None, :]
        factors = tl.load(line + start, mask=is_factor, other=0.0)
        total = tl.dot(part, factors, total, input_precision="ieee")
        if GATED:
            second = tl.load(line + n_out.to(tl.int64) * N_IN + start, mask=is_factor, other=0.0)
            other = tl.dot(part, second, other, input_precision="ieee")
    if bias is not None:
        total += tl.load(bias + output, mask=is_output, other=0.0)[None, :]
        if GATED:
            other += tl.load(bias + n_out + output, mask=is_output, other=0.0)[None, :]
    total = _activated(total, ACTIVATION)
    if GATED:
        total *= other
    cell = row[:, None] * n_out + output[None, :]
    inside = is_row[:, None] & is_output[None, :]
    if residual is not None:
        total += tl.load(residual + cell, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + cell, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _turned(heads, first, channel, cosine, sine, HALF: tl.constexpr):
    """A head turned to its position: channel i is paired with i + HALF."""
    value = tl.load(heads + first + channel).to(tl.float32)
    if cosine is not None:
        partner = tl.load(heads + first + (channel + HALF) % (2 * HALF)).to(tl.float32)
        partner = tl.where(channel < HALF, -partner, partner)
        cos = tl.load(cosine + channel % HALF)
        sin = tl.load(sine + channel % HALF)
        value = (value * cos + partner * sin).to(heads.dtype.element_ty).to(tl.float32)
    return value


@triton.jit
def one_query_attention(
    heads,
    keys,
    values,
    places,
    visible,
    bias,
    cosine,
    sine,
    out,
    partial,
    n_slots,
    scale,
    visible_by_text,
    visible_by_head,
    bias_by_text,
    bias_by_head,
    key_by_text,
    key_by_head,
    key_by_slot,
    value_by_text,
    value_by_head,
    value_by_slot,
    N_HEADS: tl.constexpr,
    N_KV_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    WRITES: tl.constexpr,
    SLOTS: tl.constexpr,
    N_PARTS: tl.constexpr,
    EARLY: tl.constexpr,
):
    """A head of a text a program, or a part of its keys.

    `heads` are the query heads of each text; if it WRITES, then its key and value heads, which go
    to the slot of the text's place, and the query sees no slot after it. With several parts,
    what each found goes to `partial`.
    """
    _begin_next(EARLY)
    text, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    kv_head = head // (N_HEADS // N_KV_HEADS)
    channel = tl.arange(0, WIDTH)
    n_rows: tl.constexpr = N_HEADS + (2 * N_KV_HEADS if WRITES else 0)
    first = text.to(tl.int64) * n_rows * WIDTH
    if cosine is not None:
        cosine += text * (WIDTH // 2)
        sine += text * (WIDTH // 2)
    _wait_for_last(EARLY)
    query = _turned(heads, first + head * WIDTH, channel, cosine, sine, WIDTH // 2) * scale
    keys += text.to(tl.int64) * key_by_text + kv_head.to(tl.int64) * key_by_head
    values += text.to(tl.int64) * value_by_text + kv_head.to(tl.int64) * value_by_head
    if visible is not None:
        visible += text.to(tl.int64) * visible_by_text + head * visible_by_head
    if bias is not None:
        bias += text.to(tl.int64) * bias_by_text + head * bias_by_head
    highest = -1.0e30
    weight = 0.0
    found = tl.zeros((WIDTH,), tl.float32)
    end = n_slots
    if WRITES:
        end = tl.load(places + text).to(tl.int32)
        if part == 0:
            from_key = first + (N_HEADS + kv_head) * WIDTH
            new_key = _turned(heads, from_key, channel, cosine, sine, WIDTH // 2)
            new_value = tl.load(heads + from_key + N_KV_HEADS * WIDTH + channel).to(tl.float32)
            if head % (N_HEADS // N_KV_HEADS) == 0:
                key_slot = keys + end.to(tl.int64) * key_by_slot + channel
                value_slot = values + end.to(tl.int64) * value_by_slot + channel
                tl.store(key_slot, new_key.to(keys.dtype.element_ty))
                tl.store(value_slot, new_value.to(values.dtype.element_ty))
            score = tl.sum(query * new_key, 0)
            if bias is not None:
                score += tl.load(bias + end)
            if visible is not None:
                score = tl.where(tl.load(visible + end), score, -float("inf"))
            highest = tl.maximum(score, highest)
            weight = tl.exp(score - highest)
            found = new_value * weight
    n_each = (tl.cdiv(end, N_PARTS) + SLOTS - 1) // SLOTS * SLOTS
    begin = part * n_each
    end = tl.minimum(end, begin + n_each)
    for start in tl.range(begin, end, SLOTS):
        slot = start + tl.arange(0, SLOTS)
        inside = slot < end
        lane = slot.to(tl.int64)[:, None]
        key = tl.load(keys + lane * key_by_slot + channel, mask=inside[:, None], other=0.0)
        value = tl.load(values + lane * value_by_slot + channel, mask=inside[:, None], other=0.0)
        score = tl.sum(key.to(tl.float32) * query[None, :], 1)
        if bias is not None:
            score += tl.load(bias + slot, mask=inside, other=0.0)
        if visible is not None:
            inside = inside & tl.load(visible + slot, mask=inside, other=0).to(tl.int1)
        score = tl.where(inside, score, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(score, 0))
        factor = tl.exp(highest - new_highest)
        weights = tl.exp(score - new_highest)
        weight = weight * factor + tl.sum(weights, 0)
        found = found * factor + tl.sum(weights[:, None] * value.to(tl.float32), 0)
        highest = new_highest
    cell = (text * N_HEADS + head).to(tl.int64)
    if N_PARTS == 1:
        found = tl.where(weight > 0, found / weight, 0.0)
        tl.store(out + cell * WIDTH + channel, found.to(out.dtype.element_ty))
    else:
        line = partial + (cell * N_PARTS + part) * (WIDTH + 2)
        tl.store(line, highest)
        tl.store(line + 1, weight)
        tl.store(line + 2 + channel, found)


@triton.jit
def join_parts(partial, out, WIDTH: tl.constexpr, N_PARTS: tl.constexpr, EARLY: tl.constexpr):
    """What a head found in all parts of its keys."""
    _begin_next(EARLY)
    cell = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, WIDTH)
    part = tl.arange(0, N_PARTS)
    line = partial + (cell * N_PARTS + part) * (WIDTH + 2)
    _wait_for_last(EARLY)
    highest = tl.load(line)
    factor = tl.exp(highest - tl.max(highest, 0))
    weight = tl.sum(tl.load(line + 1) * factor, 0)
    found = tl.load(line[:, None] + 2 + channel[None, :])
    total = tl.sum(found * factor[:, None], 0)
    total = tl.where(weight > 0, total / weight, 0.0)
    tl.store(out + cell * WIDTH + channel, total.to(out.dtype.element_ty))
