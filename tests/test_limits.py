"""A test that takes too much memory fails alone."""

import subprocess
import sys

import pytest
from memory_limit import HAS_GPU, MAX_TEST_BYTES


@pytest.mark.skipif(HAS_GPU, reason="a driver reserves more than the limit")
def test_a_test_and_its_processes_cannot_take_more_memory_than_the_limit() -> None:
    with pytest.raises(MemoryError):
        bytearray(2 * MAX_TEST_BYTES)
    program = f"bytearray({MAX_TEST_BYTES} * 3)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stderr.rstrip().endswith("MemoryError")
