"""The gradient of attention in Triton, every sum in a fixed order: no two programs add to one
number.

Keys before `prefix` are seen by all queries, the others by those at or after them: 0 is causal, all
keys is full. One kernel walks over the queries of a block of keys, the other over the keys of a
block of queries.
"""

# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingParameterType=false

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def attention_deltas(
    outs,
    grads,
    deltas,
    n_queries,
    ob,
    oh,
    ot,
    gb,
    gh,
    gt,
    H,
    VALUE: tl.constexpr,
    EV: tl.constexpr,
    M: tl.constexpr,
):
    """The sum of output × gradient of every query."""
    head, at = tl.program_id(1).to(tl.int64), tl.program_id(0) * M + tl.arange(0, M)
    b, h, e = head // H, head % H, tl.arange(0, EV)
    inside = (at < n_queries)[:, None] & (e < VALUE)[None, :]
    out = tl.load(
        outs + b * ob + h * oh + at[:, None] * ot + e[None, :], mask=inside, other=0.0
    ).to(tl.float32)
    grad = tl.load(
        grads + b * gb + h * gh + at[:, None] * gt + e[None, :], mask=inside, other=0.0
    ).to(tl.float32)
    tl.store(deltas + head * n_queries + at, tl.sum(out * grad, 1), mask=at < n_queries)


@triton.jit
def _add_query_blocks(
    key_grad,
    value_grad,
    key,
    value,
    keys_at,
    queries,
    grads,
    logsumexps,
    deltas,
    begin,
    end,
    n_queries,
    prefix,
    scale,
    qt,
    gt,
    WIDTH: tl.constexpr,
    VALUE: tl.constexpr,
    E: tl.constexpr,
    EV: tl.constexpr,
    M: tl.constexpr,
    MASKED: tl.constexpr,
):
    e, ev = tl.arange(0, E), tl.arange(0, EV)
    for first in range(begin, end, M):
        at = first + tl.arange(0, M)
        there = at < n_queries
        query = tl.load(
            queries + at[:, None] * qt + e[None, :],
            mask=there[:, None] & (e < WIDTH)[None, :],
            other=0.0,
        )
        grad = tl.load(
            grads + at[:, None] * gt + ev[None, :],
            mask=there[:, None] & (ev < VALUE)[None, :],
            other=0.0,
        )
        spread = tl.load(logsumexps + at, mask=there, other=float("inf"))
        chance = tl.exp2(tl.dot(key, tl.trans(query)) * (scale * LOG2E) - spread[None, :] * LOG2E)
        if MASKED:
            seen = (keys_at[:, None] <= at[None, :]) | (keys_at < prefix)[:, None]
            chance = tl.where(seen, chance, 0.0)
        value_grad += tl.dot(chance.to(grad.dtype), grad)
        slope = chance * (
            tl.dot(value, tl.trans(grad)) - tl.load(deltas + at, mask=there, other=0.0)[None, :]
        )
        key_grad += tl.dot(slope.to(query.dtype), query)
    return key_grad, value_grad


@triton.jit
def key_value_gradients(
    queries,
    keys,
    values,
    grads,
    logsumexps,
    deltas,
    key_grads,
    value_grads,
    n_queries,
    n_keys,
    prefix,
    scale,
    qb,
    qh,
    qt,
    kb,
    kh,
    kt,
    vb,
    vh,
    vt,
    gb,
    gh,
    gt,
    dkb,
    dkh,
    dkt,
    dvb,
    dvh,
    dvt,
    H,
    WIDTH: tl.constexpr,
    VALUE: tl.constexpr,
    E: tl.constexpr,
    EV: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    """The slopes of a block of keys and values, over the queries that see any of them."""
    head, first = tl.program_id(1).to(tl.int64), tl.program_id(0) * N
    b, h, e, ev = head // H, head % H, tl.arange(0, E), tl.arange(0, EV)
    at = first + tl.arange(0, N)
    inside, inside_v = (
        (at < n_keys)[:, None] & (e < WIDTH)[None, :],
        (at < n_keys)[:, None] & (ev < VALUE)[None, :],
    )
    key = tl.load(keys + b * kb + h * kh + at[:, None] * kt + e[None, :], mask=inside, other=0.0)
    value = tl.load(
        values + b * vb + h * vh + at[:, None] * vt + ev[None, :], mask=inside_v, other=0.0
    )
    queries += b * qb + h * qh
    grads += b * gb + h * gh
    logsumexps += head * n_queries
    deltas += head * n_queries
    # From `clear` on every query sees the whole block; before `begin` none sees any of it.
    begin = tl.where(first < prefix, 0, first // M * M)
    clear = tl.where(first + N <= prefix, 0, (first + N + M - 1) // M * M)
    to_key, to_value = tl.zeros((N, E), tl.float32), tl.zeros((N, EV), tl.float32)
    to_key, to_value = _add_query_blocks(
        to_key,
        to_value,
        key,
        value,
        at,
        queries,
        grads,
        logsumexps,
        deltas,
        begin,
        tl.minimum(clear, n_queries),
        n_queries,
        prefix,
        scale,
        qt,
        gt,
        WIDTH,
        VALUE,
        E,
        EV,
        M,
        True,
    )
    to_key, to_value = _add_query_blocks(
        to_key,
        to_value,
        key,
        value,
        at,
        queries,
        grads,
        logsumexps,
        deltas,
        tl.maximum(begin, clear),
        n_queries,
        n_queries,
        prefix,
        scale,
        qt,
        gt,
        WIDTH,
        VALUE,
        E,
        EV,
        M,
        False,
    )
    kind = key_grads.dtype.element_ty
    tl.store(
        key_grads + b * dkb + h * dkh + at[:, None] * dkt + e[None, :],
        (to_key * scale).to(kind),
        mask=inside,
    )
    tl.store(
        value_grads + b * dvb + h * dvh + at[:, None] * dvt + ev[None, :],
        to_value.to(kind),
        mask=inside_v,
    )


@triton.jit
def _add_key_blocks(
    query_grad,
    query,
    grad,
    logsumexp,
    delta,
    at,
    keys,
    values,
    begin,
    end,
    n_keys,
    prefix,
    scale,
    kt,
    vt,
    WIDTH: tl.constexpr,
    VALUE: tl.constexpr,
    E: tl.constexpr,
    EV: tl.constexpr,
    N: tl.constexpr,
    MASKED: tl.constexpr,
):
    e, ev = tl.arange(0, E), tl.arange(0, EV)
    for first in range(begin, end, N):
        keys_at = first + tl.arange(0, N)
        there = keys_at < n_keys
        key = tl.load(
            keys + keys_at[:, None] * kt + e[None, :],
            mask=there[:, None] & (e < WIDTH)[None, :],
            other=0.0,
        )
        value = tl.load(
            values + keys_at[:, None] * vt + ev[None, :],
            mask=there[:, None] & (ev < VALUE)[None, :],
            other=0.0,
        )
        chance = tl.exp2(
            tl.dot(query, tl.trans(key)) * (scale * LOG2E) - logsumexp[:, None] * LOG2E
        )
        if MASKED:
            seen = (keys_at[None, :] <= at[:, None]) | (keys_at < prefix)[None, :]
            chance = tl.where(seen & there[None, :], chance, 0.0)
        slope = chance * (tl.dot(grad, tl.trans(value)) - delta[:, None])
        query_grad += tl.dot(slope.to(key.dtype), key)
    return query_grad


@triton.jit
def query_gradients(
    queries,
    keys,
    values,
    grads,
    logsumexps,
    deltas,
    query_grads,
    n_queries,
    n_keys,
    prefix,
    scale,
    qb,
    qh,
    qt,
    kb,
    kh,
    kt,
    vb,
    vh,
    vt,
    gb,
    gh,
    gt,
    db,
    dh,
    dt,
    H,
    WIDTH: tl.constexpr,
    VALUE: tl.constexpr,
    E: tl.constexpr,
    EV: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    """The slopes of a block of queries, over the keys that any of them sees; the last block,
    with the most, first.
    """
    head, first = tl.program_id(1).to(tl.int64), (tl.num_programs(0) - 1 - tl.program_id(0)) * M
    b, h, e, ev = head // H, head % H, tl.arange(0, E), tl.arange(0, EV)
    at = first + tl.arange(0, M)
    there = at < n_queries
    inside, inside_v = there[:, None] & (e < WIDTH)[None, :], there[:, None] & (ev < VALUE)[None, :]
    query = tl.load(
        queries + b * qb + h * qh + at[:, None] * qt + e[None, :], mask=inside, other=0.0
    )
    grad = tl.load(
        grads + b * gb + h * gh + at[:, None] * gt + ev[None, :], mask=inside_v, other=0.0
    )
    spread = tl.load(logsumexps + head * n_queries + at, mask=there, other=float("inf"))
    own_drop = tl.load(deltas + head * n_queries + at, mask=there, other=0.0)
    keys += b * kb + h * kh
    values += b * vb + h * vh
    # Before `clear` every key is seen by the whole block; from `end` on none is seen by any of it.
    clear = tl.minimum(tl.maximum(prefix, first + 1), n_keys) // N * N
    end = tl.minimum(tl.maximum(prefix, first + M), n_keys)
    to_query = tl.zeros((M, E), tl.float32)
    to_query = _add_key_blocks(
        to_query,
        query,
        grad,
        spread,
        own_drop,
        at,
        keys,
        values,
        0,
        clear,
        n_keys,
        prefix,
        scale,
        kt,
        vt,
        WIDTH,
        VALUE,
        E,
        EV,
        N,
        False,
    )
    to_query = _add_key_blocks(
        to_query,
        query,
        grad,
        spread,
        own_drop,
        at,
        keys,
        values,
        clear,
        end,
        n_keys,
        prefix,
        scale,
        kt,
        vt,
        WIDTH,
        VALUE,
        E,
        EV,
        N,
        True,
    )
    slopes = query_grads + b * db + h * dh + at[:, None] * dt + e[None, :]
    tl.store(slopes, (to_query * scale).to(query_grads.dtype.element_ty), mask=inside)
