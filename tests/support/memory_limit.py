"""How much memory a test may take."""

from pathlib import Path

MAX_TEST_BYTES = 3 * 2**30  # beside what a process has already
HAS_GPU = Path("/dev/nvidiactl").exists()  # whose driver reserves more than that
