"""The kept studies are still read: their rows, curves and designs give the numbers that their reports print."""

import csv
import json
import re
from math import log
from pathlib import Path
from typing import Any

import pytest
from first_edition import factor_of, mean_slope

from paribus.analyse import family, seed_curves
from paribus.record.plan_design import DesignRecord
from paribus.record.plan_formats import convert_design
from paribus.spec.design import compute_margin

RESULTS = Path(__file__).parents[2] / "docs" / "results"
KEPT = sorted(folder.name for folder in RESULTS.iterdir() if folder.is_dir())
NUMBER = r"([+−]\d+\.\d+)"
TABLED = re.compile(rf"\| (.+) against (.+) \| (\w+).*? \| {NUMBER}; {NUMBER} to {NUMBER} \| (.*?) \|")
SAID = re.compile(rf"\*\*(.+?)\*\*.*\nGain {NUMBER} bits per byte, [\d.]+ % interval {NUMBER} to {NUMBER}")


def rows_of(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def scores_of(study: str, design: dict[str, Any]) -> dict[str, dict[int, float]]:
    measure = design["primary"]["measure"]
    scores: dict[str, dict[int, float]] = {design["baseline"]: {}}
    for row in rows_of(RESULTS / study / "rows.csv"):
        if row["purpose"] == "reported":
            value = float(row[f"{measure['kind']}.{measure['split']}"])
            scores.setdefault(row["arm"], {})[int(row["seed"])] = value
    return scores


def curves_of(study: str, arm: str) -> dict[int, dict[int, float]]:
    runs: dict[int, list[dict[str, Any]]] = {}
    for row in rows_of(RESULTS / study / "curves.csv"):
        if row["arm"] == arm:
            numbers = {name: float(row[name]) for name in ("tokens_scored", "bytes_scored")}
            valid = float(row["valid_nats"]) if row["valid_nats"] else None
            counted = {"step": int(row["step"]), "tokens_read": int(row["tokens_read"])}
            runs.setdefault(int(row["seed"]), []).append({**numbers, **counted, "valid_nats": valid})
    return seed_curves(runs)


def agrees(printed: str, value: float) -> bool:
    """Is a value what was printed, to the digits that were?"""
    digits = len(printed.partition(".")[2])
    return abs(float(printed.replace("−", "-")) - value) <= 0.5 * 10**-digits + 1e-12


@pytest.mark.parametrize("study", KEPT)
def test_the_numbers_of_a_kept_report_are_those_of_its_rows(study: str) -> None:
    design = json.loads((RESULTS / study / "plan.json").read_text())["design"]
    record = DesignRecord.model_validate(convert_design(design))
    report = (RESULTS / study / "report.md").read_text()
    share = compute_margin(str(record.primary.margin))
    assert share is not None
    margin = log(1 + share) * mean_slope(curves_of(study, design["baseline"]))
    assert re.search(rf"Margin: 10 % compute: {margin:.4g} bits per byte", report)
    written = record.comparisons
    pairs = None if written is None else [(name, against) for name, against in written]
    found = family(
        scores_of(study, design), design["baseline"], lower_is_better=True, margin=margin, comparisons=pairs
    )  # fmt: skip
    tabled = {(arm, against): (word, *numbers) for arm, against, word, *numbers in TABLED.findall(report)}
    said = [(head, *numbers) for head, *numbers in SAID.findall(report)]
    for (arm, against), judgement in found.items():
        made = judgement.comparison
        assert made is not None
        _, *numbers = next(one for one in said if one[0].startswith((f"{arm} ", f"These runs cannot tell {arm} ")))
        assert all(map(agrees, numbers, (made.effect, made.low, made.high)))
        if tabled:
            word, *numbers, factor = tabled[arm, against]
            assert word == judgement.verdict.word
            assert all(map(agrees, numbers, (made.effect, made.low, made.high)))
            times = factor_of(made, mean_slope(curves_of(study, against)))
            assert times is None or re.match(r"[ab]", factor) or agrees(f"+{factor.partition(';')[0]}", times)
    assert len(said) == len(found)
    assert not tabled or len(tabled) == len(found)


def test_three_studies_are_kept() -> None:
    assert KEPT == ["bidirectional-input-hour", "encoder-decoder-hour", "mixed-attention-hour"]
