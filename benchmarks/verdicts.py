"""How often words are false, by simulation: the tables of docs/statistics.md, second edition.

    python benchmarks/verdicts.py                      # all tables, some minutes on one core
    python benchmarks/verdicts.py open advice          # some of them

Every table calls the simulation of the test that holds its band (tests/analyse), so a table and its
test cannot part. All numbers are percent of 4,000 studies with fixed generators (multipliers: 400;
rates: as given; from untrained-control on: 2,000; steady-arms: 20,000). The standard error of a
share near 5 % is 0.34 at 4,000, 0.49 at 2,000 and 1.1 at 400. How intervals cover, and what power
is, `benchmarks/coverage.py` says.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np

from paribus.analyse import upper_sd
from paribus.analyse.interval import interval

TESTS = Path(__file__).parents[1] / "tests"
SEEDS = (5, 10)
FEW_SEEDS = (3, 5, 8)
STUDIES = 2000  # of the tables on controls, heaps, failures and wide margins
STEADY_PAIRS = 20_000  # of arms without heaps
BEFORE_AND_NOW = ("third edition, n = 5", *(f"n = {n}" for n in FEW_SEEDS))


def print_table(title: str, head: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A table in Markdown."""
    head = list(head)
    print(f"\n**{title}**\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        cells = [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row]
        print(f"| {' | '.join(cells)} |", flush=True)


def families() -> None:
    """T24: a 2 × 2 in which nothing differs."""
    test = import_module("test_family")
    designs = {
        "nothing written: two main effects and the interaction": {},
        "three pairs": {"comparisons": test.PAIRS},
        "three pairs and the default contrasts": {
            "comparisons": test.PAIRS,
            "contrasts": "default",
        },
    }
    rows = []
    for name, design in designs.items():
        plan = test.plan_for(**design)
        said = [100 * float(test.has_false_word(plan, test.null_draws(n)).mean()) for n in SEEDS]
        rows.append((name, test.plan_family_size(plan), *said))
    print_table(
        "Any false word in the report of a 2 × 2 without effects",
        ("family", "m", "n = 5", "n = 10"),
        rows,
    )


def advice() -> None:
    """T25: the second study of whoever follows the advice, and what keeping the old seeds would
    do.
    """
    test = import_module("test_following_advice")
    rows = []
    for n, margin in ((5, 1.0), (10, 0.6)):
        fresh = [test.is_false(gains) for gains in test.fresh_studies(n, margin, 1)]
        kept = test.with_old_seeds(n, margin, 1)
        rows.append((n, f"{margin:g}", 100 * float(np.mean(fresh)), 100 * float(np.mean(kept))))
    head = ("first study, seeds", "margin, sd_d", "fresh seeds, judged alone", "old seeds kept")
    print_table("False words after following the advice", head, rows)


def open_numbers() -> None:
    """T26: open seeds, looked at from 3 to 50."""
    test, draws = import_module("test_sign_test"), import_module("noise_draws")
    noises = {
        "normal in both arms": (draws.normal, draws.normal, 1.0),
        "t with 3 df in both arms": (draws.heavy_tailed, draws.heavy_tailed, 1.0),
        "one arm lognormal": (draws.skewed, draws.normal, 1.0),
        "one arm lognormal, 3 times noisier": (draws.skewed, draws.normal, 3.0),
        "one arm lognormal, 10 times noisier": (draws.skewed, draws.normal, 10.0),
    }
    rows = [(name, *test.false_words(*noise)) for name, noise in noises.items()]
    head = ("noise", "ever a false word", "of these, sign test silent at the first")
    print_table("An open number of seeds, looked at from 3 to 50, m = 1", head, rows)


def noisy_baseline() -> None:
    """T27: a baseline three times as noisy as the rest, each pair by its own noise."""
    test = import_module("test_noisy_baseline")
    rows = []
    for n_arms in (3, 5, 7):
        said = []
        for n in SEEDS:
            scores = test.scores_of(n_arms, n)
            low, high = interval(scores[:, 1:] - scores[:, :1], 1 - 0.05 / (n_arms - 1))
            said.append(
                100 * float(((np.asarray(low) > 0) | (np.asarray(high) < 0)).any(axis=1).mean())
            )
        rows.append((n_arms, *said))
    print_table("Any false word, the baseline 3 times noisier", ("arms", "n = 5", "n = 10"), rows)


def margins() -> None:
    """T22: arms that differ by exactly the margin in compute."""
    rates = import_module("margin_simulation")
    rows = []
    for power in (None, *rates.POWERS):
        for n in SEEDS:
            cells = [
                [
                    rates.share_equivalent(*rates.draw_gains_and_margins(n, cv, rho, power))
                    for rho in rates.CORRELATIONS
                ]
                for cv in rates.VARIATIONS
            ]
            known = max(
                rates.share_equivalent_at_mean(*rates.draw_gains_and_margins(n, 0.5, rho, power))
                for rho in rates.CORRELATIONS
            )
            law = "straight in ln tokens" if power is None else f"power law, exponent {power:g}"
            rows.append((law, n, *(f"{min(one):.1f} to {max(one):.1f}" for one in cells), known))
    head = (
        "law",
        "n",
        *(f"slopes vary by {100 * cv:g} %" for cv in rates.VARIATIONS),
        "mean taken as known, 50 %",
    )
    print_table("False `equivalent` where the truth is the margin of 10 % compute", head, rows)


def multipliers() -> None:
    """T23: how often the interval of a multiplier holds the planted factor."""
    simulation = import_module("margin_simulation")
    planted = [(power, factor) for power in (0.2, 0.5) for factor in (0.3, 0.5, 0.8, 1.1, 1.25)]
    rows = [
        (
            f"{power:g}",
            f"{factor:g}",
            *(simulation.multiplier_coverage(n, power, factor) for n in SEEDS),
        )
        for power, factor in planted
    ]
    print_table(
        "Coverage of a multiplier's 95 % interval",
        ("exponent", "true factor", "n = 5", "n = 10"),
        rows,
    )


def rates() -> None:
    """T20: arms equal at every rate but the highest, which diverges in one and is finite and
    bad in the next.
    """
    test = import_module("test_tuned_verdicts")
    rows = []
    for m, draws in ((1, 1200), (8, 300)):
        for noise in (0.0005, 0.002, 0.005, 0.01, 0.02):
            arms = test.tuned_arms(noise, m + 1, draws)
            said = [cell for n in SEEDS for cell in test.false_words(*arms, n)]
            rows.append((f"{noise:g}", m, draws, *said))
    head = (
        "sweep noise, bits per byte",
        "m",
        "studies",
        "n = 5, all words",
        "without the remark",
        "n = 10, all words",
        "without the remark",
    )
    print_table("False words after tuning, sd_d 0.003 bits per byte", head, rows)


def noise_bound() -> None:
    """How often a spread is too small for the effect that it promises."""
    rng, rows = np.random.default_rng(44), []
    for n in (3, 5, 8, 10, 20):
        observed = rng.normal(size=(20_000, n)).std(axis=1, ddof=1)
        raised = upper_sd(1.0, n) * observed
        rows.append((n, 100 * float((observed < 1).mean()), 100 * float((raised < 1).mean())))
    print_table("How often a spread is below the true one", ("n", "observed", "`upper_sd`"), rows)


def untrained_control() -> None:
    """T35: a control that was not trained, and an arm that loses half of what a trained one
    would.
    """
    test = import_module("false_words")
    rows = []
    for margin in ("100 % of control", 0.42):
        for start in test.UNTRAINED:
            said = [test.untrained_control(5, margin, start, STUDIES, test.OLDER)]
            said += [test.untrained_control(n, margin, start, STUDIES) for n in FEW_SEEDS]
            rows.append((str(margin), start, *said))
    print_table(
        "An untrained control: false words within the margin",
        ("margin", "the control scores", *BEFORE_AND_NOW),
        rows,
    )


def noisy_control() -> None:
    """T35: a margin of 25 % of a noisy control; an arm that loses exactly that, and one that loses
    nothing.
    """
    test = import_module("false_words")
    head = ("loss varies by", "n", "control works", "words within the margin", "by the plain end")
    losses = {"false words within the margin": test.CONTROL_SHARE, "true ones": 0.0}
    for name, loss in losses.items():
        rows = []
        for variation, n in product((1 / 8, 1 / 3, 1.0, 2.0), FEW_SEEDS):
            found = test.noisy_control(n, variation, STUDIES, arm_loss=loss)
            rows.append((f"{100 * variation:.3g} %", n, found.works, found.within, found.plain))
        print_table(f"A noisy control: {name}, of the studies whose control works", head, rows)


def plateaus() -> None:
    """T33: runs of one arm that stay on a plateau."""
    test = import_module("false_words")
    rows = []
    for noise in test.NOISES:
        for chance in (0.0, 0.1, 0.2, 0.4):
            for n in (*FEW_SEEDS, 20):
                found = test.plateaus(n, chance, noise, STUDIES)
                seen, false = (found.seen, found.false) if chance else ("–", "–")
                rows.append(
                    (noise, f"{100 * chance:g} %", n, seen, false, found.false_flags, found.equal)
                )
    head = (
        "noise",
        "runs on the plateau",
        "n",
        "`bimodal`, runs on both sides",
        "a word of t, runs on both sides",
        "`bimodal`, runs on one side",
        "called equal, of all",
    )
    print_table("Plateaus of depth 0.3 R, sd 0.01 R", head, rows)


def failures() -> None:
    """Runs that diverge more often in one arm, which else do not differ."""
    test = import_module("false_words")
    rows = []
    for kind in test.FAILURES:
        found = [test.failures(n, kind, STUDIES) for n in FEW_SEEDS]
        rows.append((kind, *(one.different for one in found), *(one.favoured for one in found)))
    head = (
        "diverged",
        *(f"`better` or `worse`, n = {n}" for n in FEW_SEEDS),
        *(f"favoured, n = {n}" for n in FEW_SEEDS),
    )
    print_table("Unequal failures", head, rows)


def wide_margins() -> None:
    """Margins above what was learnt, and above what the control loses."""
    test = import_module("false_words")
    rows = []
    for limit in test.LIMITS:
        for times in (1.0, 1.5, 3.0):
            said = [test.wide_margin(5, times, limit, STUDIES, test.OLDER)]
            said += [test.wide_margin(n, times, limit, STUDIES) for n in FEW_SEEDS]
            rows.append((limit, f"{times:g}", *said))
    head = ("limit", "margin, in limits", *BEFORE_AND_NOW)
    print_table("Wide margins: false words within the margin", head, rows)


def steady_arms() -> None:
    """Heaps in two arms without any, by their noise."""
    test = import_module("false_words")
    cases = [(name, 0.01) for name in test.NOISES]
    cases += [("normal", spread) for spread in (0.03, 0.05, 0.1, 0.2)]
    rows = []
    for noise, spread in cases:
        said = [test.steady_arms(n, spread, STEADY_PAIRS, noise) for n in (*FEW_SEEDS, 20)]
        rows.append((noise, f"{spread:g} R", *said))
    head = ("noise", "sd of a run", *(f"n = {n}" for n in (*FEW_SEEDS, 20)))
    print_table("`bimodal` of a pair of arms without heaps", head, rows)


TABLES: dict[str, Callable[[], None]] = {
    "families": families,
    "advice": advice,
    "open": open_numbers,
    "noisy-baseline": noisy_baseline,
    "margins": margins,
    "multipliers": multipliers,
    "rates": rates,
    "noise-bound": noise_bound,
    "untrained-control": untrained_control,
    "noisy-control": noisy_control,
    "plateaus": plateaus,
    "failures": failures,
    "wide-margins": wide_margins,
    "steady-arms": steady_arms,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "tables", nargs="*", choices=[[], *TABLES], metavar="TABLE", help=", ".join(TABLES)
    )
    sys.path[:0] = [str(TESTS / "support"), str(TESTS / "analyse")]
    for name in parser.parse_args().tables or TABLES:
        TABLES[name]()


if __name__ == "__main__":
    main()
