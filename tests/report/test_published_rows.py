"""What a report publishes is enough: every printed number again from its files, with numpy and scipy alone."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from paribus.cli.report import write_report
from small_study import N_ITEMS, SEEDS, made

SCORE = "halves.test"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `paribus report --format csv` writes, and nothing else."""
    root = tmp_path_factory.mktemp("published")
    made(root / "runs")
    write_report("small", runs=root / "runs", formats="csv", out=root / "files")
    return root / "files"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def scores(files: Path, arm: str) -> np.ndarray:
    """By seed, of the reported runs."""
    own = {row["seed"]: row for row in read(files / "rows.csv") if (row["arm"], row["purpose"]) == (arm, "reported")}
    return np.array([float(own[str(seed)][SCORE]) for seed in design(files)["seeds"]])


def design(files: Path) -> dict:
    return json.loads((files / "design.json").read_text())["design"]


def verdict(files: Path, arm: str) -> dict[str, str]:
    return next(row for row in read(files / "verdicts.csv") if row["arm"] == arm)


@pytest.mark.parametrize("arm", ["prefix", "input hidden"])
def test_the_main_interval_comes_from_the_rows(files: Path, arm: str) -> None:
    gains = scores(files, "causal") - scores(files, arm)
    printed = verdict(files, arm)
    level = float(printed["level"])
    assert level == pytest.approx(1 - 0.05 / int(printed["n_comparisons"]))
    ends = stats.t.interval(level, len(gains) - 1, gains.mean(), stats.sem(gains))
    assert float(printed["gain"]) == pytest.approx(gains.mean(), abs=1e-12)
    assert [float(printed["low"]), float(printed["high"])] == pytest.approx(ends, abs=1e-12)


def by_document(files: Path, arm: str) -> tuple[np.ndarray, np.ndarray]:
    """Bits by seed (down) and document (across), and the bytes of each document."""
    own = [row for row in read(files / "documents.csv") if row["arm"] == arm]
    names = list(dict.fromkeys(row["document"] for row in own))
    bits = {(int(row["seed"]), row["document"]): float(row["bits"]) for row in own}
    n_bytes = {row["document"]: int(row["bytes"]) for row in own}
    return np.array([[bits[seed, name] for name in names] for seed in SEEDS]), np.array([n_bytes[n] for n in names])


@pytest.mark.parametrize("arm", ["prefix", "input hidden"])
def test_the_interval_on_new_documents_comes_from_the_documents(files: Path, arm: str) -> None:
    (before, n_bytes), (after, _) = by_document(files, "causal"), by_document(files, arm)
    assert before.shape == (len(SEEDS), N_ITEMS)
    bits, (n, m) = before - after, before.shape
    pooled = bits.sum() / (n * n_bytes.sum())
    z = pooled + m / n_bytes.sum() * (bits - pooled * n_bytes)
    seeds, items = m * z.mean(axis=1).var(ddof=1), n * z.mean(axis=0).var(ddof=1)
    df = (seeds + items) ** 2 / (seeds**2 / (n - 1) + items**2 / (m - 1))
    printed = verdict(files, arm)
    ends = stats.t.interval(float(printed["level"]), df, z.mean(), np.sqrt((seeds + items) / (n * m)))
    assert [float(printed["new_low"]), float(printed["new_high"])] == pytest.approx(ends, abs=1e-12)


def test_documents_add_up_to_the_scores_of_the_rows(files: Path) -> None:
    bits, n_bytes = by_document(files, "prefix")
    assert bits.sum(axis=1) / n_bytes.sum() == pytest.approx(scores(files, "prefix"), abs=1e-12)


def test_an_anonymous_report_numbers_its_documents(tmp_path: Path) -> None:
    made(tmp_path / "runs")
    for anonymous in (False, True):
        write_report("small", runs=tmp_path / "runs", formats="csv", out=tmp_path / str(anonymous), anonymous=anonymous)
    named, numbered = (read(tmp_path / str(anonymous) / "documents.csv") for anonymous in (False, True))
    assert {row["document"] for row in numbered} == {f"document-{number}" for number in range(1, N_ITEMS + 1)}
    assert [row["bits"] for row in named] == [row["bits"] for row in numbered]
