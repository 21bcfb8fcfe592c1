"""What a device can do at most: FLOP a second of a square matrix product, in the precision that training uses."""

from time import perf_counter

import torch

# Small ones fit the caches and, timed often, find a quiet moment; large ones fill many cores.
SIDES = {"cpu": (256, 512, 1024), "cuda": (4096, 8192), "mps": (1024, 2048)}
SECONDS = 0.3  # spent on it in all


def peak_flops(device: torch.device, seconds: float = SECONDS) -> float:
    """The best rate met within some tenths of a second: in bfloat16 on CUDA, elsewhere in float32."""
    sides = SIDES[device.type]
    return max(_rate(side, device, seconds / len(sides)) for side in sides)


def _rate(side: int, device: torch.device, seconds: float) -> float:
    matrix = torch.ones(side, side, dtype=torch.bfloat16 if device.type == "cuda" else torch.float32, device=device)
    _product_seconds(matrix)  # the first one also sets the library up
    best, end = _product_seconds(matrix), perf_counter() + seconds
    while perf_counter() < end:
        best = min(best, _product_seconds(matrix))
    return 2 * side**3 / best


def _product_seconds(matrix: torch.Tensor) -> float:
    begin = perf_counter()
    (matrix @ matrix)[0, 0].item()  # item waits for the device
    return perf_counter() - begin
