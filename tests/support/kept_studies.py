"""The studies that are kept under docs/results, and the rows of their tables."""

import csv
import io
import lzma
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "docs" / "results"
KEPT = sorted(path.parent.name for path in RESULTS.glob("*/plan.json"))
# made before fields of a run were renamed
FIRST_NAMES = ["bidirectional-input-hour", "mixed-attention-hour", "positions-masked-hour"]
PRESENT_NAMES = [name for name in KEPT if name not in FIRST_NAMES]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a table; a large one is kept as .csv.xz."""
    packed = path.with_name(f"{path.name}.xz")
    if packed.is_file():
        return list(csv.DictReader(io.StringIO(lzma.decompress(packed.read_bytes()).decode())))
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
