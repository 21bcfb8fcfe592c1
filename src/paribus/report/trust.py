"""Can I trust it? What the verdict rests on, each with a mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, isinf
from typing import Literal

from paribus.analyse.detection import detectable_effect, detectable_spreads
from paribus.analyse.expected_gain import ExpectedGain, expected_gain
from paribus.analyse.findings import UNIT
from paribus.analyse.remarks import rate_remark
from paribus.analyse.sign_test import SIGN_SEEDS
from paribus.analyse.undertrained import UNDERTRAINED
from paribus.record import ControlLine, Mark
from paribus.report.material import Material
from paribus.report.noise import TITLE, noise_words
from paribus.report.numbers import (
    DIGITS,
    FEW,
    count,
    decimals,
    digits_apart,
    each,
    listed,
    percent,
    percent_level,
    plain,
    rough,
    signed,
    significant,
    some,
)
from paribus.report.positive_control import control_means, control_sentence, is_weak, margin_words
from paribus.report.text_read import text_words
from paribus.report.verdicts import too_short

RATE = "training.optimizer.rate"
SYMMETRIC = (
    "Verdicts on an open number of seeds hold for symmetric noise, where about 3 % of studies ever say something "
    "false; with one skewed arm it is 8 to 24 %."
)
BATCH = ("text", "corpus", "objective", "training.length", "training.n_sequences", "training.data_seed")
TrustMark = Literal["yes", "mind", "no"]


@dataclass(frozen=True)
class Ground:
    """One thing the verdict rests on: fine, to be kept in mind, or broken."""

    name: str
    mark: TrustMark
    text: str


def grounds(material: Material) -> list[Ground]:
    """In the order in which a reader should ask."""
    return [
        _confounds(material), _tuning(material), _seeds(material), *_noise(material), *_symmetry(material),
        *_sources(material), _pairing(material),
        _control(material), *_margin(material), *_failures(material), _size(material), _reading(material),
        *_budget(material), *_cut(material),
        _other_text(material), _machine(material), _as_planned(material),
    ]  # fmt: skip


def _confounds(material: Material) -> Ground:
    lines = [line for line in material.plan.control if line.mark == Mark.CONFOUND]
    allowed = [line for line in lines if line.allowed is not None]
    if len(allowed) < len(lines):
        paths = listed([line.path for line in lines if line.allowed is None])
        return Ground("Confounds", "no", f"{paths} differ between the arms and are not the factor.")
    n_equal = sum(line.mark == Mark.EQUAL for line in material.plan.control)
    factor, them = ("differ", "them") if len(material.plan.declared) > 1 else ("differs", "it")
    if allowed:
        reasons = "; ".join(allowed_confounds(material))
        return Ground("Confounds", "mind", f"{some(len(allowed), 'difference')} allowed by the design. {reasons}.")
    return Ground(
        "Confounds", "yes", f"None: only {listed(material.plan.declared)} {factor}, and what follows from {them}; "
        f"{n_equal} other fields are equal.",
    )  # fmt: skip


def allowed_confounds(material: Material) -> list[str]:
    """Every confound that the design lets pass, with its reason."""
    lines = [line for line in material.plan.control if line.mark == Mark.CONFOUND]
    return [f"{line.path}: {line.allowed}" for line in lines if line.allowed is not None]


def _tuning(material: Material) -> Ground:
    rates = material.found.rates
    if material.plan.design.tune is None or rates is None:
        return _untuned(material)
    found = each({arm: rates[arm]["rate"] for arm in material.order}, _rate)
    outside = [arm for arm in material.order if not rates[arm]["optimum"]["inside"]]
    if outside:
        return Ground("Learning rates", "no", f"The optimum of {listed(outside)} lies outside the grid; used {found}.")
    odd = [f"{arm}: {rates[arm]['optimum']['remark']}" for arm in material.order if rates[arm]["optimum"]["remark"]]
    remarks = "; ".join(filter(None, (rate_remark(material.plan), *odd, _overturnable(material))))
    said = f"Tuned alike, each optimum inside the grid: {found}."
    return Ground(
        "Learning rates",
        "mind" if remarks else "yes",
        f"{said} {remarks[:1].upper()}{remarks[1:]}." if remarks else said,
    )


def _overturnable(material: Material) -> str:
    """Which verdicts an error in the arms' rates could overturn; nothing where it could none."""
    doubtful = [material.found.label(arm) for arm in material.found.arms if arm.judgement.verdict.doubt]
    return f"tuning could overturn the verdict on {listed(doubtful)}" if doubtful else ""


def _untuned(material: Material) -> Ground:
    """Rates as they were written: one for all, the factor itself, or unequal for another reason."""
    rates = each({arm: material.rate(arm) for arm in material.order}, _rate)
    if material.one_rate:
        said = f"Not tuned: every arm trained at {material.rate(material.found.baseline):g}, which may suit one better."
        return Ground("Learning rates", "mind", said)
    if any(path == RATE or RATE.startswith(f"{path}.") for path in material.plan.declared):
        return Ground("Learning rates", "yes", f"Not tuned, for the rate is what is compared: {rates}.")
    return Ground("Learning rates", "mind", f"Not tuned, and not equal: {rates}.")


def _rate(rate: float) -> str:
    return significant(rate)


def _seeds(material: Material) -> Ground:
    found = material.found
    n, m = len(found.seeds), found.n_comparisons
    spreads = detectable_spreads(found)
    if isinf(spreads):
        said = f"{n} seeds of an open number can show no difference, however large: run more of them."
        return Ground("Seeds", "mind", f"{said} {found.reading}.")
    made = {found.label(arm): arm.judgement.comparison for arm in found.arms}
    effects = {name: detectable_effect(one, found) for name, one in made.items() if one is not None}
    can = f"; in {UNIT}, at noise as large as these seeds allow, {each(effects, rough)}" if effects else ""
    family = f" in a family of {m} comparisons" if m > 1 else ""
    early = found.look is not None and n < found.look.planned
    look = f" {found.reading}." if found.reading else ""
    return Ground(
        "Seeds", "yes" if n >= 5 and not early else "mind",
        f"{n} seeds{family} see, four times in five, an effect of {rough(spreads)} times the spread between seeds"
        f"{can}.{look}",
    )  # fmt: skip


def _noise(material: Material) -> Iterator[Ground]:
    """Where one noise was declared for all arms: each arm's own beside it."""
    pooled = material.found.pooled
    if not material.found.equal_noise or material.found.agreement.changed:
        return
    if pooled is None:
        yield Ground("One noise", "no", "Declared, and not to be had: too few arms trained in every seed.")
        return
    own = listed([f"{rough(sd)} for {arm}" for arm, sd in pooled.own_sds.items()])
    apart = max(pooled.own_sds.values()) / min(pooled.own_sds.values()) if min(pooled.own_sds.values()) else inf
    yield Ground(
        "One noise", "mind",
        f"Declared before the runs: all arms share one spread, {rough(pooled.residual_sd)} {UNIT} with {pooled.df} "
        f"degrees of freedom. Each arm's own, without what its seeds share with the others: {own}; the largest is "
        f"{rough(apart)} times the smallest. For an arm noisier than the rest the interval is too narrow; designs may "
        f"no longer declare it.",
    )  # fmt: skip


def _symmetry(material: Material) -> Iterator[Ground]:
    """What an open number of seeds rests on, and what a test says that does not."""
    found = material.found
    if not found.open_ended or found.agreement.changed:
        return
    made = {found.label(arm): arm.judgement.comparison for arm in found.arms}
    made |= {one.name: one.comparison for one in found.contrasts if one.is_judged}
    signs = {name: one.sign_test for name, one in made.items() if one is not None and one.sign_test is not None}
    said = f" A sign test on the median stands beside from {SIGN_SEEDS} seeds on."
    if signs:
        said = " A sign test on the median stands beside: " + "; ".join(
            f"{name}, {one.words}" for name, one in signs.items()
        )
    yield Ground("Shape of the noise", "mind", f"{SYMMETRIC}{said.removesuffix('.')}.")


def _sources(material: Material) -> Iterator[Ground]:
    """What a seed fixes, where it was measured."""
    noise = material.found.noise
    if noise is not None:
        yield Ground(TITLE, "mind" if noise.why or noise.repeats is False else "yes", noise_words(material))


def _pairing(material: Material) -> Ground:
    label = material.found.label
    ratios = {label(arm): arm.pairing.variance_ratio for arm in material.found.arms if arm.pairing is not None}
    shared = _share_of_start(material)
    apart = _apart(material)
    if apart:
        what = f"{listed(apart)} {'differs' if len(apart) == 1 else 'differ'}"
        said = f"Under one seed {shared} of the weights start equal. Arms do not read the same batches alike: {what}."
    else:
        said = f"Under one seed all arms read the same batches, and {shared} of their weights start equal."
    if ratios:
        said += f" Of the noise of unpaired runs this leaves {each(ratios, percent)}."
    return Ground("Pairing", "mind" if apart else "yes", said)


def _apart(material: Material) -> list[str]:
    """What of a batch is not equal in all arms, by the control table; an encoder is given its input apart."""
    lines = [line.path for line in material.plan.control if line.mark != Mark.EQUAL]
    found = [path for path in lines if any(path == part or path.startswith(f"{part}.") for part in BATCH)]
    encoders = {material.plan.arms[arm].run.architecture.get("encoder") is None for arm in material.order}
    return [*found, "how input and target are laid out"] if len(encoders) > 1 else found


def _share_of_start(material: Material) -> str:
    line = _line(material, "starting weights in common")
    return "some" if line is None else percent(min(float(value) for value in line.values.values()))


def _control(material: Material) -> Ground:
    if material.found.is_second:
        return _control_outside(material)
    name, found = material.control, material.found.control_found
    if name is None:
        return Ground("Positive control", "mind", "The design has none: no arm that had to come out worse.")
    if found:
        return Ground("Positive control", "yes", f"{name} had to come out worse, and did: the instrument works.")
    if material.found.arm(name).judgement.undertrained:
        said = f"{name} had to come out worse, and there is no verdict on it: runs were not trained long enough."
        return Ground("Positive control", "no", said)
    word = material.found.arm(name).judgement.verdict.word
    if word == "withheld":
        return Ground("Positive control", "no", f"No verdict is given on {name}, which had to come out worse.")
    return Ground(
        "Positive control", "no",
        f"{name} had to come out worse, but is {word}: at this size and length, the experiment sees nothing.",
    )  # fmt: skip


def _control_outside(material: Material) -> Ground:
    """The control of a plan that does not judge it as any arm."""
    found, declared = material.found.control, material.plan.design.control
    if declared is None:
        return Ground("Positive control", "mind", "The design has none: nothing that had to come out worse.")
    if found is None:
        return Ground("Positive control", "no", "Whether it works is not said, for files are not what was written.")
    said = f"{control_sentence(material)} {control_means(found)}"
    return Ground("Positive control", "yes" if found.works else "no", said)


def _margin(material: Material) -> Iterator[Ground]:
    """How large the margin is beside what the control costs."""
    said = margin_words(material)
    if not said:
        return
    if is_weak(material):
        little = "so `equivalent` says little: an arm that made no use of the input would nearly get it"
        yield Ground("Margin and control", "mind", f"{said}, {little}.")
    else:
        yield Ground("Margin and control", "yes", f"{said}.")


def _failures(material: Material) -> Iterator[Ground]:
    reported = material.found.reported
    bad = [row for row in reported if row["outcome"] not in ("finished", UNDERTRAINED)]
    if bad:
        told = listed([f"{row['arm']}, seed {row['seed']}" for row in bad])
        said = f"{len(bad)} of {len(reported)} runs did not train ({told}); none is dropped."
        yield Ground("Failed runs", "mind", said)
    short = Counter(row["arm"] for row in reported if row["outcome"] == UNDERTRAINED)
    if short:
        told = listed([f"{n} of {arm}" for arm, n in short.items()])
        said = f"{too_short(reported)} Pairs with these arms get no verdict ({told})."
        yield Ground("Length of training", "no", said)


def _size(material: Material) -> Ground:
    sizes = {arm: material.plan.arms[arm].price.parameters for arm in material.order}
    if len(set(sizes.values())) == 1:
        size = count(sizes[material.order[0]])
        return Ground("Size", "mind", f"One size, {size} parameters: no trend over sizes was measured.")
    told = each(sizes, partial(count, digits=_size_digits(sizes)))
    return Ground("Size", "mind", f"Sizes differ between arms: {told}, in parameters. No trend over them was measured.")


def _size_digits(sizes: Mapping[str, int]) -> int:
    """Three where many arms fall into groups so; otherwise as many as tell the sizes apart."""
    grouped = len(sizes) > FEW and len(set(map(count, sizes.values()))) > 1
    return DIGITS if grouped else digits_apart(sizes.values())


def _reading(material: Material) -> Ground:
    line = _line(material, "epochs")
    if line is None:
        return Ground("Text", "mind", "How often the text was read is not known.")
    times = [float(one) for value in line.values.values() for one in str(value).split(",")]
    tokens = sum(_tokens(material, arm) for arm in material.order) / len(material.order)
    often = significant(min(times))
    if min(times) != max(times):
        often += f" to {significant(max(times))}"
    repeated = max(times) > 1
    return Ground(
        "Text", "mind" if repeated else "yes",
        f"{count(tokens)} tokens; the training text was read {often} times"
        + (", so some of it was met again." if repeated else ": nothing was met twice."),
    )  # fmt: skip


def _budget(material: Material) -> Iterator[Ground]:
    """Where a budget of tokens gave judged arms unequal text."""
    said = text_words(material)
    if said:
        yield Ground("Budget", "mind", said)


def _tokens(material: Material, arm: str) -> float:
    return material.plan.arms[arm].work.tokens_read * material.stage(arm).training.n_steps


def _cut(material: Material) -> Iterator[Ground]:
    """Where an arm's window was too short for some contexts of the primary yardstick."""
    answers = material.found.answers
    heads = {arm: next((one.head for one in own.values()), None) for arm, own in answers.items()}
    if any(head is not None and head.n_cut for head in heads.values()):
        n_items = max(head.n_items for head in heads.values() if head is not None)
        cut = {arm: float(head.n_cut) for arm, head in heads.items() if head is not None}
        told = each(cut, lambda n_cut: f"{plain(n_cut, 0)} of {n_items}")
        yield Ground("Window", "mind", f"Contexts that did not fit, and lost their beginnings: {told}.")


def _other_text(material: Material) -> Ground:
    told = [(material.found.label(arm), expected_gain(arm)) for arm in material.found.arms]
    found = {name: one for name, one in told if one is not None}
    if not found:
        return Ground("Other documents", "mind", "The verdict is about these items, and says nothing of others.")
    gains = ": " + listed([f"{name} {_interval(one)}" for name, one in found.items()])
    if len(found) > FEW:
        order = sorted(found, key=lambda name: found[name].effect)
        ends = (f"{_interval(found[name])} for {name}" for name in (order[0], order[-1]))
        gains = " lie between {} and {}".format(*ends)
    narrower = _narrower([name for name, one in found.items() if one.is_hull], len(found))
    said = f"The verdict is about these items. Gains to expect on new documents{gains}.{narrower}"
    return Ground("Other documents", "mind" if narrower else "yes", said)


def _narrower(names: list[str], of: int) -> str:
    """Why an interval on new documents may be the narrower one, where some are."""
    if not names:
        return ""
    whose = listed(names) if len(names) <= FEW else f"{len(names)} of {of}"
    return (
        f" For {whose} the interval on new documents comes out narrower than the one on these items, because more "
        f"degrees of freedom go into its estimate; it is no stronger claim, so what is shown is the hull of both."
    )


def _interval(found: ExpectedGain) -> str:
    digits = decimals((found.high - found.low) / 2)
    return f"{signed(found.low, digits)} to {signed(found.high, digits)} ({percent_level(found.level)})"


def _machine(material: Material) -> Ground:
    one = material.environments[0]
    if material.apart:
        return Ground("Machine and code", "mind", f"Runs were made under different {listed(list(material.apart))}.")
    match one:
        case {"device": str(device), "n_threads": int(n_threads), "torch": str(torch)}:
            where = "" if material.anonymous else f", {device}, {some(n_threads, 'thread')} a run"
            return Ground("Machine and code", "yes", f"One code, one environment: torch {torch}{where}.")
        case {"torch": str(torch)} if material.anonymous:
            return Ground("Machine and code", "yes", f"One code, one environment: torch {torch}.")
    return Ground("Machine and code", "mind", "Under what the runs were made is not known.")


def _as_planned(material: Material) -> Ground:
    lock, files = material.found.lock, material.found.agreement
    if files.changed:
        return Ground("As planned", "no", f"Not what was written: {files.words}. No verdict is read from it.")
    if lock is None:
        return Ground("As planned", "mind", "The plan was not locked before the runs.")
    if lock.as_planned and lock.n_older:
        n_runs = len([row for row in material.found.reported if row["outcome"] != "open"])
        return Ground(
            "As planned", "mind",
            f"{lock.n_older} of {some(n_runs, 'run')} had been made for another study before this plan was locked; "
            f"whoever planned this one could know them.",
        )  # fmt: skip
    if lock.as_planned:
        said = "The plan was locked before the first result, and has not changed since."
        return Ground("As planned", "yes", " ".join(filter(None, (said, files.unchecked))))
    return Ground("As planned", "no", f"Not as planned: {lock.words}.")


def _line(material: Material, path: str) -> ControlLine | None:
    return next((line for line in material.plan.control if line.path == path), None)
