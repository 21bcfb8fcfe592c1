"""Sums of what was read from each row of a table, and the inverse of an order, in Triton:
without atomics, so exact.

Readings are sorted by the row they are of and cut into chunks. A chunk that is of one row alone is
added up first, so that a row which most positions read is no more work for one program than its
chunks, and less than a chunk at each end.
"""

# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingParameterType=false

import triton
import triton.language as tl


@triton.jit
def chunk_sums(
    grads,
    order,
    ends,
    rows,
    chunks,
    width,
    CHUNK: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The sum of a whole chunk of readings, where all of them are of one row."""
    first = tl.program_id(0).to(tl.int64) * CHUNK
    row = tl.load(rows + first).to(tl.int64)
    if tl.load(ends + row) >= first + CHUNK:
        channel = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
        read = tl.load(order + first + tl.arange(0, CHUNK)).to(tl.int64)
        values = tl.load(
            grads + read[:, None] * width + channel[None, :],
            mask=(channel < width)[None, :],
            other=0.0,
        )
        line = chunks + tl.program_id(0).to(tl.int64) * width + channel
        tl.store(line, tl.sum(values.to(tl.float32), 0), mask=channel < width)


@triton.jit
def row_totals(
    grads,
    order,
    ends,
    chunks,
    sums,
    width,
    CHUNK: tl.constexpr,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """One row of the table a program: the readings before its first whole chunk, its chunks,
    and those after.
    """
    row = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    begin = tl.load(ends + row - 1, mask=row > 0, other=0)
    end = tl.load(ends + row)
    first, last = (begin + CHUNK - 1) // CHUNK, end // CHUNK  # whole chunks lie between
    before = tl.where(first < last, first * CHUNK, end)
    after = tl.where(first < last, last * CHUNK, end)
    total = tl.zeros((ROWS, WIDE), tl.float32)
    for start in range(begin, before, ROWS):
        place = start + tl.arange(0, ROWS)
        read = tl.load(order + place, mask=place < before, other=0).to(tl.int64)
        inside = (place < before)[:, None] & (channel < width)[None, :]
        total += tl.load(
            grads + read[:, None] * width + channel[None, :], mask=inside, other=0.0
        ).to(tl.float32)
    for start in range(first, last, ROWS):
        chunk = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside = (chunk < last)[:, None] & (channel < width)[None, :]
        total += tl.load(chunks + chunk[:, None] * width + channel[None, :], mask=inside, other=0.0)
    for start in range(after, end, ROWS):
        place = start + tl.arange(0, ROWS)
        read = tl.load(order + place, mask=place < end, other=0).to(tl.int64)
        inside = (place < end)[:, None] & (channel < width)[None, :]
        total += tl.load(
            grads + read[:, None] * width + channel[None, :], mask=inside, other=0.0
        ).to(tl.float32)
    tl.store(
        sums + row * width + channel,
        tl.sum(total, 0).to(sums.dtype.element_ty),
        mask=channel < width,
    )


@triton.jit
def invert_permutation(permutation, inverse, n_rows, ROWS: tl.constexpr):
    """places[order[i]] = i: of a permutation, so that no two programs write to one place."""
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = place < n_rows
    tl.store(
        inverse + tl.load(permutation + place, mask=inside, other=0),
        place.to(tl.int64),
        mask=inside,
    )
