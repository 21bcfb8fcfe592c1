"""What a study found: every comparison it declared, with what the verdict rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paribus.analyse.advice import at_next_look
from paribus.analyse.bracket import bracket_rows, hold_contrast, hold_judgement
from paribus.analyse.compare import NOT_TUNED, Comparison
from paribus.analyse.contrasts import (
    ContrastFinding,
    Setting,
    contrast_findings,
    is_second,
    plan_control,
    plan_factorial,
    plan_family,
    plan_family_size,
)
from paribus.analyse.control import ControlFinding, control_finding, margins_by_control
from paribus.analyse.curves import Step, difference, seed_curves
from paribus.analyse.equal_noise import Pooled
from paribus.analyse.factorial import Factorial
from paribus.analyse.failures import Judgement, Scores, SeedMargin
from paribus.analyse.family import Pair, family
from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.items import NO_STATEMENT, OtherText, on_new_documents, per_byte
from paribus.analyse.lengths import LengthCurves, length_curves
from paribus.analyse.looks import SHARE, Look, look_at, share_at
from paribus.analyse.margins import Margins, study_margins
from paribus.analyse.multiplier import Multiplier, multiplier
from paribus.analyse.one_noise import by_one_noise
from paribus.analyse.pairing import Pairing, pairing
from paribus.analyse.rates import gains_by_rate, tuned_at
from paribus.analyse.rows import ENDED, Row, Table, answers_to, name_of, rows
from paribus.analyse.shapes import readable_plan, readable_rates
from paribus.analyse.tuning import contrast_with_doubt, judged_with_doubt, movable_pair
from paribus.analyse.undertrained import UNDERTRAINED, Reached
from paribus.analyse.variance import NoiseSources, noise_sources
from paribus.analyse.verdict import Test, Verdict
from paribus.errors import SpecError
from paribus.record import (
    Agreement,
    Evaluation,
    Lock,
    Study,
    agreement,
    differences,
    environments_of,
    evaluations,
    read_rows,
)
from paribus.spec.design import OPEN

UNIT = "bits per byte"
MAX_NAMED = 3  # of runs that are not done
NOT_AT_ANY = f"{NO_STATEMENT}: the number of seeds is open, and its interval would hold at one number alone."


@dataclass(frozen=True, eq=False)
class Arm:
    """One comparison: an arm against the baseline, or against the arm that the design names."""

    name: str
    against: str
    judgement: Judgement
    multiplier: Multiplier | None
    other_text: OtherText | None
    pairing: Pairing | None
    curve: tuple[Step, ...]  # the gain along training
    by_rate: Mapping[float, float | None]  # the gain at every rate of the common grid
    movable: float | None = None  # what tuning could move of the gain; None where it is not known
    brackets: Mapping[str, Judgement] = field(default_factory=dict)  # the same pair half an octave below and above


@dataclass(frozen=True, eq=False)
class Findings:
    """All of it; `margins` are in bits per byte, by the arm that a pair is judged against."""

    plan: dict[str, Any]
    lock: Lock | None
    table: Table
    baseline: str
    arms: tuple[Arm, ...]
    margins: Margins
    lengths: Mapping[str, LengthCurves]  # of each arm: what its annealed lengths scored, or why there are none
    rates: dict[str, Any] | None
    factorial: Factorial | None
    contrasts: tuple[ContrastFinding, ...]  # declared ones; of a 2 × 2 also those that are not
    remarks: tuple[str, ...]
    runs: Mapping[str, Mapping[int, list[Row]]]  # arm → seed → the rows of a run that finished
    answers: Mapping[str, Mapping[int, Evaluation]]  # arm → seed → what it said to the primary yardstick's items
    seeds: tuple[int, ...]  # those the verdict is read from: all, or those of a look
    look: Look | None  # where the design declares any
    pooled: Pooled | None  # where it declares one noise for all arms, and enough of them trained
    agreement: Agreement = field(default_factory=Agreement)  # of the files with what was written
    control: ControlFinding | None = None  # of the second edition on; before it the control was judged as any arm
    noise: NoiseSources | None = None  # where the design asks for it, or a seed does not fix a run

    @property
    def margin(self) -> float | None:
        """The margin against the baseline, on average over seeds; None where there is none."""
        return self.margins.mean(self.baseline)

    @property
    def margin_words(self) -> str:
        return self.margins.words

    @property
    def open_ended(self) -> bool:
        """Is the number of seeds no part of the design?"""
        return _is_open(self.plan)

    @property
    def equal_noise(self) -> bool:
        """Did the design declare one noise for all arms?"""
        return _one_noise(self.plan)

    @property
    def reading(self) -> str:
        """At which seeds the verdict is read, where the design says more than how many there are."""
        if self.open_ended:
            return f"The number of seeds is open: the verdict is read at {len(self.seeds)}, and may be at any number"
        return "" if self.look is None else self.look.words

    @property
    def is_second(self) -> bool:
        """Are its words given by the second edition: one family, and the control outside it?"""
        return is_second(self.plan)

    @property
    def reported(self) -> list[Row]:
        """The rows of the runs the verdict is read from."""
        return [row for row in self.table if row["purpose"] == "reported" and row["seed"] in self.seeds]

    @property
    def share(self) -> float:
        """Of false alarms, what this verdict may spend."""
        return SHARE if self.look is None else self.look.share

    @property
    def n_comparisons(self) -> int:
        """The size of the family: pairs and declared contrasts."""
        return plan_family_size(self.plan)

    def arm(self, name: str) -> Arm:
        """An arm against the baseline, or where it is not, in the first pair that judges it."""
        own = [arm for arm in self.arms if arm.name == name]
        return next((arm for arm in own if arm.against == self.baseline), own[0])

    def label(self, arm: Arm) -> str:
        """What a comparison is called: its arm, and what it is judged against where that is not the baseline."""
        return arm.name if arm.against == self.baseline else f"{arm.name} against {arm.against}"

    @property
    def control_found(self) -> bool | None:
        """Did the positive control come out worse? None where there is none."""
        if self.control is not None:
            return self.control.works
        name = plan_control(self.plan)
        return None if name is None or self.is_second else self.arm(name).judgement.verdict.word == "worse"


def verdicts(study: Study) -> Table:
    """One row a comparison, then one a contrast: verdict, gain in bits per byte, its interval."""
    return verdict_table(findings(study))


def verdict_table(found: Findings) -> Table:
    """The verdicts of a study as rows; a contrast has a name, no arm and, outside the family, no verdict."""
    control = [] if found.control is None else [_controlled(found.control, found.baseline)]
    return Table((*map(_judged, found.arms), *map(_contrasted, found.contrasts), *control))


def _judged(arm: Arm) -> Row:
    own = arm.judgement
    row: Row = {"arm": arm.name, "against": arm.against, "contrast": None, "verdict": own.verdict.word}
    compute = None if arm.multiplier is None else arm.multiplier.said
    return {**row, **_numbers(own.comparison), "compute": compute, "tuning": arm.movable, "words": own.words}


def _contrasted(one: ContrastFinding) -> Row:
    row: Row = {"arm": None, "against": None, "contrast": one.name, "verdict": one.word}
    return {**row, **_numbers(one.comparison), "compute": None, "words": one.words}


def _controlled(control: ControlFinding, baseline: str) -> Row:
    row: Row = {"arm": control.name, "against": baseline, "contrast": None, "verdict": control.word}
    ends: Row = {"gain": -control.effect, "low": None, "high": -control.low if math.isfinite(control.low) else None}
    return {**row, **ends, "seeds": len(control.losses), "compute": None, "words": control.words}


def _numbers(made: Comparison | None) -> Row:
    if made is None:
        return {"gain": None, "low": None, "high": None, "seeds": 0}
    return {"gain": made.effect, "low": made.low, "high": made.high, "seeds": made.n}


def findings(study: Study) -> Findings:
    """The verdicts of a study whose reported runs are all there; SpecError says which are not."""
    plan, table = readable_plan(study), rows(study)
    reported = [row for row in table if row["purpose"] == "reported"]
    seeds = _looked_at(plan, reported)
    reported = [row for row in reported if row["seed"] in seeds]
    others = [row for row in table if row["purpose"] in ("length", "bracket") and row["seed"] in seeds]
    made_under = _environments(study, [*reported, *others])
    remarks = (*_remarks(plan, seeds), *made_under, *_padding_counted(plan, reported))
    column = name_of(plan["design"]["primary"]["measure"])
    scores = _scores(plan, reported, seeds, column)
    runs = {arm: _runs(study, reported, arm) for arm in plan["order"]}
    baseline = plan["order"][0]
    lengths = length_curves(plan, table, seeds)
    control = _control(plan, table, seeds, column)
    margins = margins_by_control(plan, control, UNIT) or study_margins(plan, lengths, _judged_against(plan), UNIT)
    rates = readable_rates(study, plan["order"])
    tuned = _verdicts_at(plan, reported, seeds, margins, remarks)
    sides = {
        side: _verdicts_at(plan, own, seeds, margins, remarks) for side, own in bracket_rows(plan, table, seeds).items()
    }
    answers = answers_of(study, reported)
    arms = tuple(
        replace(
            _arm(name, judgement, against, scores, runs, answers, rates, _is_open(plan), lengths[against]),
            brackets={side: at.pairs[name, against] for side, at in sides.items()},
        )
        for (name, against), judgement in _held_pairs(tuned, sides, rates).items()
    )
    found = Findings(
        plan, study.lock(), table, baseline, arms, margins, lengths, rates,
        tuned.factorial, _held_contrasts(tuned, sides, rates), remarks,
        runs, answers, tuple(seeds), _look(plan, seeds), tuned.pooled, noise=_noise(table, baseline, column),
        control=control,
    )  # fmt: skip
    return _held_to_files(found, study)


@dataclass(frozen=True)
class _Verdicts:
    """What the runs at one rate of each arm say: every pair, every contrast, and what these were made with."""

    pairs: Mapping[Pair, Judgement]
    pooled: Pooled | None
    factorial: Factorial | None
    contrasts: tuple[ContrastFinding, ...]


def _verdicts_at(
    plan: Mapping[str, Any], own: Sequence[Row], seeds: Sequence[int], margins: Margins, remarks: Sequence[str]
) -> _Verdicts:
    column = name_of(plan["design"]["primary"]["measure"])
    scores, reached = _scores(plan, own, seeds, column), _reached(own, column)
    pairs, pooled = _family(plan, scores, reached, seeds, margins, remarks)
    setting = _setting(plan, seeds, margins.against[plan["order"][0]], remarks)
    factorial = plan_factorial(plan, scores, reached, setting)
    contrasts = contrast_findings(plan, scores, reached, setting, factorial)
    return _Verdicts(pairs, pooled, factorial if isinstance(factorial, Factorial) else None, contrasts)


def _held_pairs(
    tuned: _Verdicts, sides: Mapping[str, _Verdicts], rates: Mapping[str, Any] | None
) -> dict[Pair, Judgement]:
    """Every pair, with what tuning could overturn, and as it holds at the rates to either side."""
    found = {}
    for pair, own in tuned.pairs.items():
        doubted = judged_with_doubt(own, movable_pair(*pair, rates))
        found[pair] = hold_judgement(doubted, {side: at.pairs[pair] for side, at in sides.items()})
    return found


def _held_contrasts(
    tuned: _Verdicts, sides: Mapping[str, _Verdicts], rates: Mapping[str, Any] | None
) -> tuple[ContrastFinding, ...]:
    """Every contrast likewise."""
    found = []
    for place, own in enumerate(tuned.contrasts):
        doubted = contrast_with_doubt(own, rates)
        found.append(hold_contrast(doubted, {side: at.contrasts[place] for side, at in sides.items()}))
    return tuple(found)


def _noise(table: Table, baseline: str, column: str) -> NoiseSources | None:
    """Where the baseline's noise comes from, by the runs that were made for it."""
    made = [row for row in table if row["purpose"] == "variance"]
    if any(row["outcome"] in ("open", "failed") for row in made):
        return NoiseSources(baseline, 0, 0, (), None, "not all of its runs are there yet")
    scores = {(row["start"], row["order"], row["rerun"]): row.get(column) for row in made}
    return noise_sources(baseline, scores)


def _held_to_files(found: Findings, study: Study) -> Findings:
    """The findings without any verdict, where a file they rest on is not what was written."""
    ended = [row["run"] for row in found.table if row["outcome"] in ENDED]
    others = [row["run"] for row in found.table if row["outcome"] not in ENDED]
    compared = agreement(study, found.plan, ended, others)
    found = replace(found, agreement=compared)
    if not compared.changed:
        return found
    arms = tuple(_withheld(arm, compared.words) for arm in found.arms)
    margins = replace(found.margins, against=dict.fromkeys(found.margins.against))
    return replace(
        found, arms=arms, margins=margins, factorial=None, contrasts=(), pooled=None, control=None, noise=None
    )


def _withheld(arm: Arm, why: str) -> Arm:
    judgement = arm.judgement
    seeds = tuple(replace(one, gain=None) for one in judgement.seeds)
    silent = replace(judgement, seeds=seeds, mcnemar=None, comparison=None, verdict=Verdict("withheld", why))
    return replace(
        arm, judgement=silent, multiplier=None, other_text=None, pairing=None, curve=(), by_rate={}, movable=None,
        brackets={},
    )  # fmt: skip


def _is_open(plan: Mapping[str, Any]) -> bool:
    return plan["design"]["seeds"] == OPEN


def _one_noise(plan: Mapping[str, Any]) -> bool:
    return plan["design"].get("equal_noise", False)  # a plan of before it could be declared has none


def _test(plan: Mapping[str, Any]) -> Test:
    return plan["design"]["primary"].get("test", "two-sided")  # a plan of before it could be declared has none


def _looked_at(plan: Mapping[str, Any], reported: Sequence[Row]) -> list[int]:
    """The seeds a verdict is read from: all, or as many of the first ones as have all their runs.

    So many as the last declared look has; of an open number, any.
    """
    seeds, stops = plan["design"]["seeds"], sorted(map(int, plan["design"]["looks"] or ()))
    if _is_open(plan):
        seeds = sorted({row["seed"] for row in reported}) or list(range(1, MIN_SEEDS + 1))
        stops = list(range(MIN_SEEDS, len(seeds) + 1))
    done = {(row["arm"], row["seed"]) for row in reported if row["outcome"] in ENDED}
    for n in reversed(stops):
        if all((arm, seed) in done for arm in plan["order"] for seed in seeds[:n]):
            return seeds[:n]
    return seeds


def _declared(plan: Mapping[str, Any]) -> dict[int, float] | None:
    looks = plan["design"]["looks"]
    return None if looks is None else {int(n): share for n, share in looks.items()}


def _look(plan: Mapping[str, Any], seeds: Sequence[int]) -> Look | None:
    declared = _declared(plan)
    return None if declared is None else look_at(declared, len(seeds))


def _scores(plan: Mapping[str, Any], reported: Sequence[Row], seeds: Sequence[int], column: str) -> dict[str, Scores]:
    scores: dict[str, dict[int, float | None]] = {arm: {} for arm in plan["order"]}
    missing = []
    for row in reported:
        if row["outcome"] in ("open", "failed"):
            missing.append(f"{row['arm']}, seed {row['seed']}{' (failed)' if row['outcome'] == 'failed' else ''}")
        scores[row["arm"]][row["seed"]] = row.get(column) if row["outcome"] == "finished" else None
    missing += [f"{arm}, seed {seed}" for arm, own in scores.items() for seed in seeds if seed not in own]
    if missing:
        raise SpecError(_of_missing(missing, len(scores) * len(seeds)))
    return {arm: dict(own) for arm, own in scores.items()}


def _reached(reported: Sequence[Row], column: str) -> dict[str, dict[int, float]]:
    """Arm → seed → the score of a run that was not trained long enough."""
    found: dict[str, dict[int, float]] = {}
    for row in reported:
        if row["outcome"] == UNDERTRAINED:
            found.setdefault(row["arm"], {})[row["seed"]] = row[column]
    return found


def _of_missing(missing: Sequence[str], n_runs: int) -> str:
    """How many runs there are still to be made, and which, if they are few."""
    more = [f"{len(missing) - MAX_NAMED} more"] if len(missing) > MAX_NAMED else []
    named = "; ".join((*missing[:MAX_NAMED], *more))
    are = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of {n_runs} reported runs {are} open: {named}; `paribus run DESIGN` goes on"


def _family(
    plan: Mapping[str, Any],
    scores: Mapping[str, Scores],
    reached: Reached,
    seeds: Sequence[int],
    margins: Margins,
    remarks: Sequence[str],
) -> tuple[dict[Pair, Judgement], Pooled | None]:
    declared, baseline = _declared(plan), plan["order"][0]
    pairs, _ = plan_family(plan)
    if not pairs:
        return {}, None
    found = family(
        scores, baseline, lower_is_better=True, margins=margins.against, looks=declared, seeds=seeds, unit=UNIT,
        comparisons=pairs, remarks=remarks,
        open_ended=_is_open(plan), undertrained=reached, control=plan["design"]["control"],
        n_comparisons=plan_family_size(plan), test=_test(plan),
    )  # fmt: skip
    pooled = None
    if _one_noise(plan):
        share = _share(plan, len(seeds))
        found, pooled = by_one_noise(
            found, scores, baseline, lower_is_better=True, margin=margins.mean(baseline), share=share, remarks=remarks
        )
    return {pair: _with_next_look(own, plan, len(seeds)) for pair, own in found.items()}, pooled


def _with_next_look(own: Judgement, plan: Mapping[str, Any], n_seeds: int) -> Judgement:
    """The same judgement; its advice is the next declared look where there is one."""
    later = _next_look(plan, n_seeds)
    if later is None or own.comparison is None or own.comparison.advice is None:
        return own
    return replace(own, comparison=replace(own.comparison, advice=at_next_look(later)))


def _next_look(plan: Mapping[str, Any], n_seeds: int) -> int | None:
    return min((n for n in _declared(plan) or () if n > n_seeds), default=None)


def _setting(
    plan: Mapping[str, Any], seeds: Sequence[int], margin: SeedMargin | None, remarks: Sequence[str]
) -> Setting:
    """What the contrasts of a study are judged with."""
    return Setting(
        margin=margin, share=_share(plan, len(seeds)), unit=UNIT, open_ended=_is_open(plan), remarks=tuple(remarks),
        n_comparisons=plan_family_size(plan), next_look=_next_look(plan, len(seeds)), test=_test(plan),
    )  # fmt: skip


def _control(plan: Mapping[str, Any], table: Sequence[Row], seeds: Sequence[int], column: str) -> ControlFinding | None:
    """The positive control, outside the family; None where there is none, or it was judged as any arm."""
    if not is_second(plan):
        return None
    return control_finding(plan, table, seeds, column, _share(plan, len(seeds)), _is_open(plan))


def _share(plan: Mapping[str, Any], n_seeds: int) -> float:
    declared = _declared(plan)
    return SHARE if declared is None else share_at(declared, n_seeds)


def _remarks(plan: Mapping[str, Any], seeds: Sequence[int]) -> tuple[str, ...]:
    n_seeds = len(seeds) if _is_open(plan) else len(plan["design"]["seeds"])
    looked = (f"a look at {len(seeds)} of {n_seeds} seeds",) if len(seeds) < n_seeds else ()
    said = rate_remark(plan)
    return (*looked, said) if said else looked


def rate_remark(plan: Mapping[str, Any]) -> str | None:
    """What a verdict must add of rates that were not tuned, or on shorter runs."""
    tune, stages = plan["design"]["tune"], [plan["arms"][arm]["run"]["stages"][-1] for arm in plan["order"]]
    if tune is None:
        one = len({stage["training"]["optimizer"]["rate"] for stage in stages}) == 1
        return f"{'at one rate for all arms' if one else 'each arm at the rate written for it'}, {NOT_TUNED}"
    n_steps = stages[0]["training"]["n_steps"]
    return tuned_at(max(2, round(n_steps * tune["share"])), n_steps)


def _environments(study: Study, reported: Sequence[Row]) -> tuple[str, ...]:
    """What the runs were not all made under alike; nothing where they were."""
    first: dict[str, Any] | None = None
    apart: dict[str, None] = {}
    for run in dict.fromkeys(row["run"] for row in reported):
        for here in environments_of(study.root / run) if (study.root / run).is_dir() else ():
            first = first or here
            apart |= dict.fromkeys(differences(first, here))
    return (f"runs were made under different {', '.join(apart)}",) if apart else ()


def _padding_counted(plan: Mapping[str, Any], reported: Sequence[Row]) -> tuple[str, ...]:
    """What must be known of runs on pairs whose rows are older than the count of tokens without padding."""
    pairs = {arm for arm in plan["order"] if _asks_pairs(plan["arms"][arm]["run"]["stages"][-1]["objective"])}
    old = [row for row in reported if row["arm"] in pairs and row["tokens_read"] and not row["positions_computed"]]
    return (f"tokens_read counts padding in {len(old)} of {len(reported)} runs, as it once did",) if old else ()


def _asks_pairs(objective: Mapping[str, Any]) -> bool:
    parts = [part["objective"] for part in objective.get("parts", ())]
    return any(one["kind"] == "seq2seq" for one in (objective, *parts))


def _runs(study: Study, reported: Sequence[Row], arm: str) -> dict[int, list[Row]]:
    return {
        row["seed"]: read_rows(study.root / row["run"] / "rows.jsonl").rows
        for row in reported if row["arm"] == arm and row["outcome"] == "finished"
    }  # fmt: skip


def _judged_against(plan: Mapping[str, Any]) -> list[str]:
    """The arms that gains are set against: those of pairs, and the baseline where contrasts are judged."""
    pairs, contrasts = plan_family(plan)
    names = {against for _, against in pairs} | ({plan["order"][0]} if contrasts else set())
    return [arm for arm in plan["order"] if arm in names]


def answers_of(study: Study, table: Sequence[Row]) -> dict[str, dict[int, Evaluation]]:
    """Arm → seed → what a reported run that finished said to the primary yardstick's items."""
    plan = study.plan()
    wanted = plan["design"]["primary"]["measure"]
    found: dict[str, dict[int, Evaluation]] = {arm: {} for arm in plan["order"]}
    for row in table:
        if row["purpose"] == "reported" and row["outcome"] == "finished":
            there, text = evaluations(study.root / row["run"]), plan["arms"][row["arm"]]["text"]
            own = [one for one in there if answers_to(one, wanted, text, row["n_steps"])]
            found[row["arm"]] |= {row["seed"]: own[0]} if own else {}
    return found


def _arm(
    name: str,
    judgement: Judgement,
    against: str,
    scores: Mapping[str, Scores],
    runs: Mapping[str, Mapping[int, list[Row]]],
    answers: Mapping[str, Mapping[int, Evaluation]],
    rates: Mapping[str, Any] | None,
    open_ended: bool,
    lengths: LengthCurves,
) -> Arm:
    both = sorted(runs[against].keys() & runs[name].keys())
    made = judgement.comparison
    gains = {one.seed: one.gain for one in judgement.seeds if one.gain is not None}
    times = None if made is None else multiplier(made, gains, lengths)
    level = 1 - SHARE if made is None else made.level
    text = _other_text(answers[against], answers[name], both, level)
    return Arm(
        name,
        against,
        judgement,
        times,
        OtherText(None, NOT_AT_ANY) if open_ended and text is not None else text,
        _pairing(scores[against], scores[name], both),
        _gained(runs, against, name, both),
        _by_rate(rates, against, name),
        movable_pair(name, against, rates),
    )


def _pairing(baseline: Scores, arm: Scores, seeds: Sequence[int]) -> Pairing | None:
    pairs = [(a, b) for seed in seeds if (a := baseline[seed]) is not None and (b := arm[seed]) is not None]
    return pairing([a for a, _ in pairs], [b for _, b in pairs])


def _gained(
    runs: Mapping[str, Mapping[int, list[Row]]], baseline: str, arm: str, seeds: Sequence[int]
) -> tuple[Step, ...]:
    if len(seeds) < MIN_SEEDS:
        return ()
    before, after = (seed_curves({seed: runs[name][seed] for seed in seeds}) for name in (baseline, arm))
    try:
        return difference(before, after, lower_is_better=True)
    except SpecError:
        return ()


def _other_text(
    baseline: Mapping[int, Evaluation], arm: Mapping[int, Evaluation], seeds: Sequence[int], level: float
) -> OtherText | None:
    if len(seeds) < MIN_SEEDS or any(seed not in baseline or seed not in arm for seed in seeds):
        return None
    first = baseline[seeds[0]]
    if any(one.head.items != first.head.items for own in (baseline, arm) for one in own.values()):
        return None
    documents = [answer.document or answer.item for answer in first.answers]
    order = list(dict.fromkeys(documents))
    if len(order) < 2:
        return None

    def bits(found: Evaluation) -> list[float]:
        sums = dict.fromkeys(order, 0.0)
        for document, answer in zip(documents, found.answers, strict=True):
            sums[document] += answer.nats / math.log(2)
        return list(sums.values())

    sizes = dict.fromkeys(order, 0)
    for document, answer in zip(documents, first.answers, strict=True):
        sizes[document] += answer.n_bytes
    gains = [[a - b for a, b in zip(bits(baseline[s]), bits(arm[s]), strict=True)] for s in seeds]
    return on_new_documents(per_byte(gains, list(sizes.values())), level, UNIT)


def _by_rate(rates: Mapping[str, Any] | None, baseline: str, arm: str) -> dict[float, float | None]:
    if rates is None:
        return {}
    before, after = ([(rate, score) for rate, score in rates[name]["points"]] for name in (baseline, arm))
    return gains_by_rate(before, after, grid=rates[baseline].get("grid"))  # of an older study, every common rate
