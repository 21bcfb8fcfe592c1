"""What probes found inside of a model: one row per value, as JSON lines and as columns."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paribus.canonical import canonical_hash
from paribus.errors import RecordError
from paribus.files import MAX_ROWS_BYTES, read_text
from paribus.record.disk import replace
from paribus.record.file_names import PROBES


@dataclass(frozen=True, kw_only=True)
class ProbeRow:
    """One value. What it does not depend on is empty: `layer` is None for the whole model."""

    probe: str
    quantity: str
    value: float
    n: int  # over how many matrices, tokens or sequences it is
    stack: str = ""  # stack or encoder
    branch: str = ""  # attention or cross
    layer: int | None = None
    head: int | None = None
    variant: str = ""  # what was changed, such as "no skips"; empty: the model as it is
    x: float | None = None  # what it is a curve over
    x_name: str = ""


def probe_rows_path(run_folder: Path, probe: Mapping[str, Any], texts: str, weights: str) -> Path:
    """Where a run keeps the rows of a probe, given as a table, on texts and weights, given by
    their fingerprints.
    """
    key = canonical_hash([probe, texts, weights])
    return run_folder / PROBES / f"{probe['kind']}-{key[:16]}.jsonl"


def write_probe_rows(path: Path, rows: Iterable[ProbeRow]) -> None:
    """One JSON object per line."""
    lines = [json.dumps(_kept_fields(row)) + "\n" for row in rows]
    replace(path, "".join(lines).encode())


def read_probe_rows(path: Path) -> list[ProbeRow]:
    """The rows of a file; RecordError where one cannot be read."""
    rows = []
    for number, line in enumerate(read_text(path, MAX_ROWS_BYTES).splitlines(), 1):
        try:
            rows.append(_read_row(json.loads(line)))
        except (TypeError, ValueError) as fault:
            raise RecordError(
                f"{path} has no row of a probe in line {number}: {fault}; remove the file, and the"
                " same command probes again"
            ) from None
    return rows


def _kept_fields(row: ProbeRow) -> dict[str, Any]:
    """Fields that say something; what is not finite is null, which JSON has."""
    kept = {name: value for name, value in asdict(row).items() if value not in ("", None)}
    if not math.isfinite(row.value):
        kept["value"] = None
    return kept


def _read_row(table: dict[str, Any]) -> ProbeRow:
    if table.get("value") is None:
        table = {**table, "value": math.nan}
    return ProbeRow(**table)
