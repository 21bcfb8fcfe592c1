"""What a device can do at most: FLOP a second of a square matrix product, in the precision that
training uses.
"""

from functools import cache
from time import perf_counter

import torch

# Small ones fit the caches and, timed often, find a quiet moment; large ones fill many cores.
MATMUL_SIDES = {"cpu": (256, 512, 1024), "cuda": (4096, 8192), "mps": (1024, 2048)}
TIMING_SECONDS = 0.3  # spent on it in all


@cache
def peak_flops(device: torch.device, seconds: float = TIMING_SECONDS) -> float:
    """The best rate met within some tenths of a second, timed once in a process: in bfloat16 on
    CUDA, elsewhere in float32.
    """
    sides = MATMUL_SIDES[device.type]
    return max(_flops_per_second(side, device, seconds / len(sides)) for side in sides)


def _flops_per_second(side: int, device: torch.device, seconds: float) -> float:
    dtype = torch.float32
    if device.type == "cuda":
        dtype = torch.bfloat16
    matrix = torch.ones(side, side, dtype=dtype, device=device)
    _matmul_seconds(matrix)  # the first one also sets the library up
    best, end = _matmul_seconds(matrix), perf_counter() + seconds
    while perf_counter() < end:
        best = min(best, _matmul_seconds(matrix))
    return 2 * side**3 / best


def _matmul_seconds(matrix: torch.Tensor) -> float:
    begin = perf_counter()
    (matrix @ matrix)[0, 0].item()  # item waits for the device
    return perf_counter() - begin
