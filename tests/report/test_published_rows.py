"""What a report publishes is enough: every printed number again from its files, with numpy and
scipy alone.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from extra_runs import add_curved_lengths, add_sweeps
from handmade_study import GAINS, N_ITEMS, SEEDS, make_study, sweep_record
from scipy import interpolate, optimize, stats

from paribus.cli.report import write_report

SCORE = "halves.test"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `paribus report --format csv` writes, and nothing else."""
    root = tmp_path_factory.mktemp("published")
    study = add_curved_lengths(
        make_study(root / "runs", rates=sweep_record(list(GAINS))), ["causal"]
    )
    add_sweeps(study, {"causal": 0.0045, "prefix": 0.0031, "input hidden": 0.006})
    write_report("small", runs=root / "runs", formats="csv", out=root / "files")
    return root / "files"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def scores(files: Path, arm: str) -> np.ndarray:
    """By seed, of the reported runs."""
    own = {
        row["seed"]: row
        for row in read(files / "rows.csv")
        if (row["arm"], row["purpose"]) == (arm, "reported")
    }
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
    return np.array([[bits[seed, name] for name in names] for seed in SEEDS]), np.array(
        [n_bytes[n] for n in names]
    )


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
    ends = stats.t.interval(
        float(printed["level"]), df, z.mean(), np.sqrt((seeds + items) / (n * m))
    )
    assert [float(printed["new_low"]), float(printed["new_high"])] == pytest.approx(ends, abs=1e-12)


def lengths(files: Path, arm: str) -> tuple[np.ndarray, np.ndarray]:
    """ln tokens and scores of the annealed runs of an arm, seeds down and lengths across."""
    own = [
        row
        for row in read(files / "rows.csv")
        if row["arm"] == arm and row["purpose"] in ("reported", "length")
    ]
    own.sort(key=lambda row: (int(row["seed"]), int(row["n_steps"])))
    tokens = np.array([float(row["tokens_read"]) for row in own]).reshape(len(SEEDS), -1)
    return np.log(tokens / tokens[:, -1:]), np.array([float(row[SCORE]) for row in own]).reshape(
        len(SEEDS), -1
    )


def slopes(files: Path, arm: str) -> np.ndarray:
    """The fall of the loss for each e-fold of tokens at full length, off the parabola through
    three lengths.
    """
    x, y = lengths(files, arm)
    assert x.shape == (len(SEEDS), 3)
    return np.array(
        [-np.polyder(np.poly1d(np.polyfit(x[s], y[s], 2)))(0.0) for s in range(len(SEEDS))]
    )


def test_the_margin_and_what_decides_on_it_come_from_the_lengths(files: Path) -> None:
    assert design(files)["primary"]["margin"] == "10 % compute"
    margins = np.log(1.1) * slopes(files, "causal")
    gains, printed = scores(files, "causal") - scores(files, "prefix"), verdict(files, "prefix")
    assert np.ptp(margins) > 0
    assert float(printed["margin"]) == pytest.approx(margins.mean(), abs=1e-10)
    alpha = 1 - float(printed["level"])
    ends = [
        stats.t.interval(1 - 2 * alpha, 3, d.mean(), stats.sem(d))
        for d in (gains + margins, gains - margins)
    ]
    assert float(printed["plus_margin_low"]) == pytest.approx(ends[0][0], abs=1e-10)
    assert float(printed["minus_margin_high"]) == pytest.approx(ends[1][1], abs=1e-10)


def read_off(files: Path, gains: np.ndarray, place: float) -> np.ndarray:
    """By seed, how far the baseline's curve at a place in ln tokens lies above the arm's score."""
    x, y = lengths(files, "causal")
    score = y[:, -1] - gains
    if place > 0:
        return y[:, -1] - place * slopes(files, "causal") - score
    at, mean = x.mean(axis=0), y.mean(axis=0)
    falls = (mean[0] - mean[1]) / (mean[1] - mean[2])
    power = optimize.brentq(
        lambda b: (
            (np.exp(-b * at[0]) - np.exp(-b * at[1])) / (np.exp(-b * at[1]) - np.exp(-b * at[2]))
            - falls
        ),
        1e-3,
        4,
    )
    curves = interpolate.PchipInterpolator(-np.exp(-power * at), y.T)
    return curves(-np.exp(-power * place)) - score


@pytest.mark.parametrize("arm", ["prefix", "input hidden"])
def test_the_multiplier_and_its_interval_come_from_the_lengths(files: Path, arm: str) -> None:
    gains, printed = scores(files, "causal") - scores(files, arm), verdict(files, arm)
    t = stats.t.ppf(1 - (1 - float(printed["level"])) / 2, len(gains) - 1)
    ends = {"multiplier": 0.0, "multiplier_low": -t, "multiplier_high": t}
    for name, times in ends.items():

        def above(place: float, times: float = times) -> float:
            apart = read_off(files, gains, place)
            return float(apart.mean() + times * stats.sem(apart))

        low, high = np.log(0.27), np.log(2)
        if float(printed[name]) == 0.0:
            assert above(low) < 0  # below the shortest length
        else:
            assert float(printed[name]) == pytest.approx(
                np.exp(optimize.brentq(above, low, high)), rel=2e-3
            )


def sweep(files: Path, arm: str) -> tuple[np.ndarray, np.ndarray, float]:
    """log₂ rates and losses of the sweep of an arm, a point a run, and what the unigram model
    costs.
    """
    own = [
        row for row in read(files / "rows.csv") if (row["arm"], row["purpose"]) == (arm, "sweep")
    ]
    unigram = {float(row["unigram"]) for row in own}
    assert len(unigram) == 1
    return (
        np.log2([float(row["rate"]) for row in own]),
        np.array([float(r["halves.valid"]) for r in own]),
        *unigram,
    )


@pytest.mark.parametrize("arm", ["causal", "prefix", "input hidden"])
def test_the_tuned_rate_comes_from_the_rows_of_the_sweep(files: Path, arm: str) -> None:
    x, losses, unigram = sweep(files, arm)
    grid = set.intersection(*(set(sweep(files, one)[0].tolist()) for one in GAINS))
    means = {place: losses[x == place].mean() for place in set(x.tolist())}
    best = min(grid, key=lambda place: means[place])
    assert len(grid) < len(means)
    floor = min(means.values())
    kept = [
        p for p in means if abs(p - best) <= 1.01 and means[p] <= floor + 0.1 * (unigram - floor)
    ]
    a, b, _ = np.polyfit(x[np.isin(x, kept)], losses[np.isin(x, kept)], 2)
    printed = {
        float(row["rate"])
        for row in read(files / "rows.csv")
        if (row["arm"], row["purpose"]) == (arm, "reported")
    }
    assert printed == {float(f"{2 ** (-b / (2 * a)):.3g}")}


def test_documents_add_up_to_the_scores_of_the_rows(files: Path) -> None:
    bits, n_bytes = by_document(files, "prefix")
    assert bits.sum(axis=1) / n_bytes.sum() == pytest.approx(scores(files, "prefix"), abs=1e-12)


def test_an_anonymous_report_numbers_its_documents(tmp_path: Path) -> None:
    make_study(tmp_path / "runs")
    for anonymous in (False, True):
        write_report(
            "small",
            runs=tmp_path / "runs",
            formats="csv",
            out=tmp_path / str(anonymous),
            anonymous=anonymous,
        )
    named, numbered = (
        read(tmp_path / str(anonymous) / "documents.csv") for anonymous in (False, True)
    )
    assert {row["document"] for row in numbered} == {
        f"document-{number}" for number in range(1, N_ITEMS + 1)
    }
    assert [row["bits"] for row in named] == [row["bits"] for row in numbered]
