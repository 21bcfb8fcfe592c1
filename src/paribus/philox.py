"""The first draw of many Philox streams at once, bit for bit as numpy gives it one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

UInt64 = NDArray[np.uint64]
_FACTORS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
_KEY_STEPS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B))
_N_ROUNDS = 10
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_UNUSED_BITS = np.uint64(11)  # a double has 53


def first_uniforms(keys: UInt64) -> NDArray[np.float64]:
    """What `Generator(Philox(key=key)).random()` gives first, for each key."""
    one, two = keys.copy(), np.zeros_like(keys)
    words = [np.ones_like(keys), *(np.zeros_like(keys) for _ in range(3))]  # the first block is 1
    with np.errstate(over="ignore"):
        for _ in range(_N_ROUNDS):
            high_0, low_0 = _product(_FACTORS[0], words[0])
            high_1, low_1 = _product(_FACTORS[1], words[2])
            words = [high_1 ^ words[1] ^ one, low_1, high_0 ^ words[3] ^ two, low_0]
            one, two = one + _KEY_STEPS[0], two + _KEY_STEPS[1]
    return (words[0] >> _UNUSED_BITS).astype(np.float64) * 2.0**-53


def _product(factor: np.uint64, values: UInt64) -> tuple[UInt64, UInt64]:
    """The upper and the lower 64 bits of products of 64 bits."""
    factor_low, factor_high = factor & _LOW, factor >> _HALF
    low, high = values & _LOW, values >> _HALF
    low_low, high_low = factor_low * low, factor_low * high
    low_high, high_high = factor_high * low, factor_high * high
    middle = (low_low >> _HALF) + (high_low & _LOW) + (low_high & _LOW)
    upper = high_high + (high_low >> _HALF) + (low_high >> _HALF) + (middle >> _HALF)
    return upper, factor * values
