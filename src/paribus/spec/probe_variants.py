"""Of what a probe's rows are: variants of a model, its stacks and its branches. A design names one
of them, and the probes name their rows with the same words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from paribus.nearest import did_you_mean
from paribus.spec.languages import EpisodeKind, RegressionLanguage
from paribus.spec.measure import PROBE_UNITS
from paribus.spec.probes import (
    CollapseProbe,
    CorruptionProbe,
    DescentProbe,
    FlowProbe,
    GradientsProbe,
    InContextProbe,
    PositionsProbe,
    Probe,
    RankProbe,
)

AS_IS = ""  # the model as it is
UNTRAINED = "untrained"
SHUFFLED_POSITIONS = "positions shuffled"
TWO_LAYERS = "two layers"  # of the classifier of positions
UNIFORM_ATTENTION = "uniform attention"
WITHOUT_SKIPS, WITHOUT_FEED_FORWARD = "without skips", "without feed-forward"
ATTENTION_ALONE = "attention alone"
LEFT_OUT = (AS_IS, WITHOUT_SKIPS, WITHOUT_FEED_FORWARD, ATTENTION_ALONE)
RIDGE, MEAN = "ridge", "mean"
DESCENT_STEPS = (1, 2, 4, 16)

ACCURACY, NATS, SQUARED_ERROR = "accuracy", "nats", "squared error"
SYMBOL_MASS, SQUARED_DIFFERENCE = "mass of symbols", "squared difference"
OF_REGRESSION = (SQUARED_ERROR, SQUARED_DIFFERENCE)
LAST_UPDATE = "curvature along the last update"
RANK_CORRELATION = "Kendall's tau"
RECALL = "Rec2FTP"
OF_DOMAINS, OF_TOKENS = "what the domain tells of the expert", "what the token tells of the expert"
# without a row where tuning corrects nothing, or where all tokens are rare
PERHAPS_MISSING = (RECALL, OF_TOKENS)
LOG_DETERMINANT = "log |det|"
REACHED_PAIRS, GRADIENT_DISTANCE = "reached pairs", "gradient distance"
GRADIENT_NORM = "gradient norm"
OF_SELF_ATTENTION = (LOG_DETERMINANT, "attention distance", "weight on itself")

BY_STACK = ("rank", "collapse", "experts", "positions", "flow")
BY_BRANCH = ("rank", "flow")  # probes that tell self-attention and cross-attention apart
DRAWN = ("descent", "in-context")  # probes that draw documents of their own
_STEP = re.compile(r"step [1-9]\d{0,8}", re.ASCII)
_EXAMPLES = re.compile(r"(?:(?P<learner>.+), )?(?P<number>\d{1,6}) examples?", re.ASCII)


def tells_stacks_apart(kind: str, quantity: str) -> bool:
    """Has each stack a value of its own?"""
    if kind == "gradients":
        return quantity == GRADIENT_NORM
    return kind in BY_STACK and quantity != GRADIENT_DISTANCE


def tells_branches_apart(kind: str, quantity: str) -> bool:
    """Have self-attention and cross-attention a value of their own?"""
    of_one = (*OF_SELF_ATTENTION, REACHED_PAIRS, GRADIENT_DISTANCE)
    return kind in BY_BRANCH and quantity not in of_one


def scaled_scores(sd: float) -> str:
    """Attention whose scores are rescaled."""
    return f"scores at sd {sd:g}"


def after_steps(n_steps: int) -> str:
    """The model as it was after so many steps."""
    return f"step {n_steps}"


def descent_learner(n_steps: int) -> str:
    """Gradient descent of so many steps."""
    if n_steps == 1:
        return "1 step of gradient descent"
    return f"{n_steps} steps of gradient descent"


REGRESSION_LEARNERS = (RIDGE, MEAN, *map(descent_learner, DESCENT_STEPS))


class ExamplesVariant(NamedTuple):
    """What the in-context probe shows: a known learner or the model alone, after so many examples
    or after the most there are.
    """

    learner: str
    n_examples: int | None


def read_examples(variant: str) -> ExamplesVariant:
    """`ridge, 4 examples`, `4 examples` or `ridge` in parts."""
    found = _EXAMPLES.fullmatch(variant)
    if found is None:
        return ExamplesVariant(variant, None)
    return ExamplesVariant(found["learner"] or AS_IS, int(found["number"]))


def quantity_fault(probe: Probe, quantity: str) -> str | None:
    """Why a probe does not measure a quantity as it is set; None where it does."""
    known = PROBE_UNITS[probe.kind]
    if quantity not in known:
        return (
            f"quantity is {quantity!r}; {did_you_mean(quantity, known)}the probe {probe.kind!r} has"
            f" {', '.join(map(repr, known))}"
        )
    if isinstance(probe, GradientsProbe) and "curvature" in quantity and not probe.curvature:
        return f"quantity is {quantity!r}, but probe.curvature is false; set it to true"
    return None


def place_fault(probe: Probe, quantity: str, stack: str, branch: str) -> str | None:
    """Why a quantity has no value of its own in a stack or a branch; None where it has."""
    if stack != "stack" and not tells_stacks_apart(probe.kind, quantity):
        return (
            f"stack is {stack!r}, but {quantity!r} of the probe {probe.kind!r} is of the whole"
            " model; leave it out"
        )
    if branch != "attention" and probe.kind not in BY_BRANCH:
        return (
            f"branch is {branch!r}, but the probe {probe.kind!r} does not tell branches apart;"
            f" leave it out, or use {_one_of(map(repr, BY_BRANCH))}"
        )
    if branch != "attention" and not tells_branches_apart(probe.kind, quantity):
        return (
            f"branch is {branch!r}, but {quantity!r} of the probe {probe.kind!r} is not measured"
            " there; leave it out"
        )
    return None


def named_variants(probe: Probe, quantity: str) -> tuple[str, ...]:
    """The variants that have a quantity, as far as the probe's own settings say."""
    match probe:
        case RankProbe():
            return (AS_IS, *map(scaled_scores, probe.score_sds))
        case CollapseProbe() if probe.start:
            return (*LEFT_OUT, *(_joined(UNTRAINED, name) for name in LEFT_OUT))
        case CollapseProbe():
            return LEFT_OUT
        case PositionsProbe():
            return tuple(_position_variants(probe))
        case FlowProbe() if quantity not in (REACHED_PAIRS, GRADIENT_DISTANCE):
            return (AS_IS, UNIFORM_ATTENTION)
        case GradientsProbe() if quantity == LAST_UPDATE:
            return (AS_IS,)
        case GradientsProbe() | DescentProbe() if probe.start:
            return (AS_IS, UNTRAINED)
        case InContextProbe() if quantity == SQUARED_DIFFERENCE:
            return REGRESSION_LEARNERS
        case _:
            return (AS_IS,)


def variant_fault(probe: Probe, quantity: str, variant: str) -> str | None:
    """Why a probe has no such variant of a quantity, whatever the run; None where it may."""
    known, more = named_variants(probe, quantity), ""
    match probe:
        case CorruptionProbe():
            return None  # each component of the objective is one
        case GradientsProbe() if quantity != LAST_UPDATE:
            more = ", and 'step N' for each checkpoint before the last that a run keeps"
            if _STEP.fullmatch(variant):
                return None
        case InContextProbe():
            example = _joined(known[0], "4 examples")
            more = f", each also after some examples alone, as in {example!r}"
            if read_examples(variant).learner in known:
                return None
        case _:
            pass
    if variant in known:
        return None
    return f"{describe_variants(variant, known)}{more}"


def describe_variants(variant: str, known: Collection[str]) -> str:
    """What was given, and what there is to choose from."""
    if list(known) == [AS_IS]:
        return f"variant is {variant!r}, but there is none; leave it out"
    names = list(map(repr, filter(None, known)))
    if AS_IS in known:
        names.insert(0, "none")
    meant = did_you_mean(variant, filter(None, known))
    return f"variant is {variant!r}; {meant}use {_one_of(names)}"


def examples_fault(language: EpisodeKind, quantity: str, variant: str) -> str | None:
    """Why documents of a language do not give a variant of a quantity; None where they do."""
    if quantity in OF_REGRESSION and not isinstance(language, RegressionLanguage):
        return (
            f"quantity is {quantity!r}, but {language.kind!r} has labels; use {NATS!r},"
            f" {ACCURACY!r} or {SYMBOL_MASS!r}"
        )
    least, most = language.min_length, language.max_length
    n_examples = read_examples(variant).n_examples
    if n_examples is not None and not least <= n_examples <= most:
        return (
            f"variant is {variant!r}, but documents of {language.kind!r} have {least} to"
            f" {most} examples; use as many"
        )
    return None


def _position_variants(probe: PositionsProbe) -> Iterator[str]:
    for fit in (AS_IS, TWO_LAYERS)[: 1 + probe.classifier]:
        yield fit
        yield _joined(fit, SHUFFLED_POSITIONS)
        if probe.start:
            yield _joined(fit, UNTRAINED)


def _joined(*names: str) -> str:
    return ", ".join(filter(None, names))


def _one_of(names: Iterable[str]) -> str:
    *first, last = names
    if not first:
        return last
    return f"{', '.join(first)} or {last}"
