"""The kept studies are still read: their rows give the numbers that their files and reports
print.
"""

import json
import re
from typing import Any

import numpy as np
import pytest
from kept_studies import KEPT, RESULTS, rows_of
from measures import HIGHER, LOWER
from scipy import stats

from paribus.analyse import end_slopes
from paribus.spec.measure import Measure

UNITS = {
    "halves": "bits per byte",
    "pairs": "bits per byte",
    "pseudo": "bits per byte",
    "head": "points",
    "task": "points",
}
DOCUMENT_COLUMNS = {"bits per byte": ("bits", "bytes"), "points": ("score", "count")}
DIRECTIONS = {"bits per byte": LOWER, "points": HIGHER}
RATES_ALONE = [
    "rates-22m",
    "rates-90m-128",
    "rates-90m-256",
]  # made for their sweeps: without a control or a margin
UNSIGNED = r"([+−]?\d+\.\d+)"


def unit_of(design: dict[str, Any]) -> str:
    return UNITS[design["primary"]["measure"]["kind"]]


def direction_of(design: dict[str, Any]) -> Measure:
    return DIRECTIONS[unit_of(design)]


def score_column(design: dict[str, Any]) -> str:
    measure = design["primary"]["measure"]
    name = measure["task"]["name"] if measure["kind"] == "task" else measure["kind"]
    return f"{name}.{measure['split']}"


def scores_of(study: str, design: dict[str, Any]) -> dict[str, dict[int, float]]:
    scores: dict[str, dict[int, float]] = {design["baseline"]: {}}
    for row in rows_of(RESULTS / study / "rows.csv"):
        if row["purpose"] == "reported":
            value = float(row[score_column(design)])
            scores.setdefault(row["arm"], {})[int(row["seed"])] = value
    return scores


def agrees(printed: str, value: float) -> bool:
    """Is a value what was printed, to the digits that were?"""
    digits = len(printed.partition(".")[2])
    return abs(float(printed.replace("−", "-")) - value) <= 0.5 * 10**-digits + 1e-12


def verdicts_of(study: str) -> list[dict[str, str]]:
    """The pairs of its family, and the contrasts whose weights the design writes; the control and
    what is shown without a verdict have no level.
    """
    written = json.loads((RESULTS / study / "design.json").read_text())["design"].get("contrasts")
    names = ("", *written) if isinstance(written, dict) else ("",)
    rows = rows_of(RESULTS / study / "verdicts.csv")
    return [row for row in rows if row["level"] and row["contrast"] in names]


def weights_of(verdict: dict[str, str], design: dict[str, Any]) -> dict[str, float]:
    """How much each arm counts in a pair or a contrast."""
    if verdict["contrast"]:
        return design["contrasts"][verdict["contrast"]]
    return {verdict["arm"]: 1.0, verdict["against"]: -1.0}


def margins_of(study: str, design: dict[str, Any], against: str) -> np.ndarray | None:
    """By seed, the margin that the design names; None where none is sure."""
    if share := re.fullmatch(r"(\d+) % of control", str(design["primary"]["margin"])):
        baseline = scores_of(study, design)[design["baseline"]]
        control, measure = control_scores(study, design), direction_of(design)
        losses = [measure.gain(control[seed], baseline[seed]) for seed in sorted(baseline)]
        return int(share[1]) / 100 * np.array(losses)
    if design["primary"]["margin"] is None:
        return None
    if isinstance(design["primary"]["margin"], float):
        return np.full(len(design["seeds"]), design["primary"]["margin"])
    assert design["primary"]["margin"] == "10 % compute"
    return compute_margins(study, against, design)


def control_scores(study: str, design: dict[str, Any]) -> dict[int, float]:
    """Scores of the positive control by seed: an arm of its own, or the baseline at a part of its
    training.
    """
    if isinstance(design["control"], str):
        return scores_of(study, design)[design["control"]]
    rows = rows_of(RESULTS / study / "rows.csv")
    own = [row for row in rows if row["arm"] == design["baseline"]]
    (n_steps,) = {int(row["n_steps"]) for row in own if row["purpose"] == "reported"}
    shortened = round(design["control"]["length"] * n_steps)
    shorter = [row for row in own if int(row["n_steps"]) == shortened]
    return {int(row["seed"]): float(row[score_column(design)]) for row in shorter}


def compute_margins(study: str, arm: str, design: dict[str, Any]) -> np.ndarray | None:
    """By seed, what a tenth more tokens buy at full length, read off the annealed lengths; None
    if nothing is sure.
    """
    column = score_column(design)
    rows = [row for row in rows_of(RESULTS / study / "rows.csv") if row["arm"] == arm]
    rows = [row for row in rows if row["purpose"] in ("reported", "length")]
    rows.sort(key=lambda row: (int(row["seed"]), int(row["n_steps"])))
    n_seeds = len({row["seed"] for row in rows})
    tokens = np.array([float(row["tokens_read"]) for row in rows]).reshape(n_seeds, -1)
    scores = np.array([float(row[column]) for row in rows]).reshape(n_seeds, -1)
    slopes = end_slopes(np.log(tokens), scores, measure=direction_of(design))
    sure = stats.ttest_1samp(slopes, 0, alternative="greater").pvalue < 0.05
    return np.log(1.1) * slopes if sure else None


def t_interval(gains: np.ndarray, level: float) -> tuple[float, float]:
    return stats.t.interval(level, len(gains) - 1, gains.mean(), stats.sem(gains))


def verdict_of(gains: np.ndarray, margins: np.ndarray | None, n_comparisons: int) -> str:
    """The word by section 2: a difference, its absence within the margin, or neither."""
    low, high = t_interval(gains, 1 - 0.05 / n_comparisons)
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    if margins is None:
        return "inconclusive"
    inner = 1 - 0.1 / n_comparisons
    below = t_interval(gains - margins, inner)[1] < 0
    above = t_interval(gains + margins, inner)[0] > 0
    return "equivalent" if below and above else "inconclusive"


def is_at_floor(study: str, verdict: dict[str, str], scores: dict[str, dict[int, float]]) -> bool:
    """Is no arm of a pair above what needs no model, by the interval of its mean over seeds?"""
    floors = [row.get("floor") for row in rows_of(RESULTS / study / "rows.csv")]
    known = [float(floor) for floor in floors if floor]
    if not known or verdict["contrast"]:
        return False
    for arm in (verdict["arm"], verdict["against"]):
        own = np.array(list(scores[arm].values()))
        if t_interval(own, 1 - 0.05 / int(verdict["n_comparisons"]))[0] > max(known):
            return False
    return True


def said_numbers(report: str, unit: str, level: str) -> list[tuple[str, ...]]:
    """The gains of a report that are said with an interval at a level, each with its ends."""
    said = re.compile(
        rf"^Gain {UNSIGNED} {unit}, .*?(?<![\d.]){level} % interval {UNSIGNED} to {UNSIGNED}", re.M
    )
    return said.findall(report)


@pytest.mark.parametrize("study", KEPT)
def test_the_numbers_of_a_kept_study_are_those_of_its_rows(study: str) -> None:
    design = json.loads((RESULTS / study / "design.json").read_text())["design"]
    scores = scores_of(study, design)
    report = (RESULTS / study / "report.md").read_text()
    verdicts = verdicts_of(study)
    assert verdicts
    for row in verdicts:
        n_comparisons, measure = int(row["n_comparisons"]), direction_of(design)
        gains = np.zeros(len(design["seeds"]))
        for arm, weight in weights_of(row, design).items():
            own = [measure.gain(0.0, score) for _, score in sorted(scores[arm].items())]
            gains += weight * np.array(own)
        assert len(gains) == len(design["seeds"]) == int(row["seeds"])
        ends = t_interval(gains, 1 - 0.05 / n_comparisons)
        printed = [float(row[name]) for name in ("gain", "low", "high")]
        assert printed == pytest.approx([gains.mean(), *ends], abs=1e-12)
        said = said_numbers(report, unit_of(design), f"{100 * float(row['level']):.4g}")
        assert any(all(map(agrees, numbers, printed)) for numbers in said)
        margins = margins_of(study, design, row["against"] or design["baseline"])
        word = verdict_of(gains, margins, n_comparisons)
        if is_at_floor(study, row, scores):
            word = "at floor"
        assert row["verdict"] == word
        assert (margins is None) == (row["margin"] == "")
        if margins is not None:
            assert float(row["margin"]) == pytest.approx(margins.mean(), abs=1e-10)


@pytest.mark.parametrize("study", KEPT)
def test_the_documents_of_a_kept_study_add_up_to_its_scores(study: str) -> None:
    design = json.loads((RESULTS / study / "design.json").read_text())["design"]
    sums, counts = DOCUMENT_COLUMNS[unit_of(design)]
    totals: dict[tuple[str, int], list[float]] = {}
    for row in rows_of(RESULTS / study / "documents.csv"):
        total = totals.setdefault((row["arm"], int(row["seed"])), [0.0, 0.0])
        total[0] += float(row[sums])
        total[1] += float(row[counts])
    scores = scores_of(study, design)
    judged = {arm for row in verdicts_of(study) for arm in weights_of(row, design)}
    assert {arm for arm, _ in totals} >= judged
    for arm in judged:
        assert {seed for own, seed in totals if own == arm} == set(design["seeds"])
    for (arm, seed), (total, count) in totals.items():
        assert total / count == pytest.approx(scores[arm][seed], abs=1e-9)


@pytest.mark.parametrize("study", [study for study in KEPT if study not in RATES_ALONE])
def test_the_control_of_a_kept_study_works(study: str) -> None:
    (control,) = [
        row for row in rows_of(RESULTS / study / "verdicts.csv") if row["verdict"] == "works"
    ]
    margins = [float(row["margin"]) for row in verdicts_of(study) if row["margin"]]
    assert float(control["high"]) < 0
    largest = -float(control["gain"]) / 4
    if json.loads((RESULTS / study / "plan.json").read_text()).get("edition", 1) >= 4:
        largest = -float(control["high"]) / 2  # of what it loses for sure: docs/statistics.md
    assert all(margin < largest + 1e-9 for margin in margins)


def test_these_studies_are_kept() -> None:
    assert KEPT == [
        "bidirectional-input-hour",
        "descent-hour",
        "direction-45m",
        "direction-scored",
        "encoder-decoder-hour",
        "expert-domains-hour",
        "in-context-hour",
        "inside-masked-hour",
        "inside-prefix-hour",
        "ladder-hour",
        "mixed-attention-hour",
        "positions-hour",
        "positions-masked-hour",
        "rank-hour",
        "rates-22m",
        "rates-90m-128",
        "rates-90m-256",
        "understanding-hour",
        "zero-shot-hour",
    ]


def test_the_page_of_blimp_says_what_its_answers_say() -> None:
    folder = RESULTS / "blimp-books"
    page = (folder / "README.md").read_text("utf-8")
    answers = rows_of(folder / "answers.csv")
    paradigms = {(row["seed"], row["paradigm"]): row for row in rows_of(folder / "paradigms.csv")}
    for seed in ("1", "2"):
        right: list[float] = []
        n_above = 0
        for row in answers:
            if row["seed"] != seed:
                continue
            own = [{"0": 0.0, "1": 1.0, "5": 0.5}[letter] for letter in row["right"]]
            paradigm = paradigms[seed, row["paradigm"]]
            assert len(own) == 1000
            assert sum(own) / 1000 == pytest.approx(float(paradigm["accuracy"]), abs=5e-4)
            n_above += sum(own) / 1000 > max(0.5, float(paradigm["length_floor"]))
            right += own
        assert len(right) == 67_000
        assert f"| {seed} | {100 * sum(right) / len(right):.1f} % |" in page
        assert f"{n_above} (seed {seed})" in page


def test_the_table_of_gains_by_width_follows_from_the_rows() -> None:
    folder = RESULTS / "direction-45m"
    design = json.loads((folder / "design.json").read_text())["design"]
    scores = scores_of(folder.name, design)
    lines = (RESULTS / "README.md").read_text("utf-8").splitlines()
    for width in (128, 192, 256, 352):
        cells: list[str] = []
        for arm in (f"prefix {width}", f"causal LM {width}"):
            own, against = scores[arm], scores[f"causal {width}"]
            gains = np.array([against[seed] - own[seed] for seed in sorted(own)])
            numbers = [f"{one:+.4f}" for one in (gains.mean(), *t_interval(gains, 0.95))]
            cells.append("{} ({} to {})".format(*numbers).replace("-", "−"))
        (line,) = [line for line in lines if line.startswith(f"| {width} |") and cells[0] in line]
        assert line.endswith(f"| {cells[0]} | {cells[1]} |")
