"""Yardsticks: read strictly, and never two kinds of number under one name."""

from typing import get_args

import pytest

from paribus.errors import SpecError
from paribus.spec import (
    CopyLanguage,
    Corpus,
    DocumentHalves,
    HeldOutPairs,
    PseudoHalves,
    load_yardstick,
)
from paribus.spec.measure import LIKELIHOOD, PSEUDO_LIKELIHOOD, Measure
from paribus.spec.objectives import UL2, CausalLM, LastToken, MaskedLM, Mixture, MixtureComponent
from paribus.spec.yardstick import MEASURES, Yardstick, default_yardstick


def test_a_yardstick_is_read_by_its_kind_and_changed_by_its_fields() -> None:
    assert load_yardstick("halves") == DocumentHalves()
    assert load_yardstick("pseudo", {"split": "valid", "max_bytes": 64}) == PseudoHalves(
        split="valid", max_bytes=64
    )
    assert load_yardstick("pairs", {"n_items": 3}) == HeldOutPairs(n_items=3)


def test_a_likelihood_is_not_a_pseudo_likelihood() -> None:
    assert DocumentHalves().scores == HeldOutPairs().scores == LIKELIHOOD
    assert PseudoHalves().scores == PSEUDO_LIKELIHOOD != LIKELIHOOD


def test_every_kind_of_yardstick_has_its_measure() -> None:
    kinds = {kind.model_fields["kind"].default: kind for kind in get_args(Yardstick)}
    assert {kind: yardstick.scores for kind, yardstick in kinds.items()} == MEASURES


def test_a_gain_is_above_zero_for_the_better_arm() -> None:
    accuracy = Measure(kind="likelihood", unit="%", lower_is_better=False)
    assert LIKELIHOOD.gain(1.5, 1.25) == 0.25
    assert accuracy.gain(1.5, 1.25) == -0.25
    assert (LIKELIHOOD.direction, accuracy.direction) == ("lower is better", "higher is better")


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "half",
            {},
            "yardstick.kind is 'half'; did you mean 'halves'\\? use one of halves, pairs, pseudo",
        ),
        ("halves", {"split": "train"}, "yardstick.split is 'train'; use 'valid' or 'test'"),
        ("halves", {"n_item": 3}, "yardstick.n_item is not a key here; did you mean 'n_items'\\?"),
        (
            "pairs",
            {"max_bytes": 9},
            "yardstick.max_bytes is not a key here; .*keys are split, n_items, kind, max_t",
        ),
        (
            "halves",
            {"n_items": 0},
            r"yardstick.n_items is 0 \(int\); use 1 or more",
        ),
        (
            "halves",
            {"max_bytes": 7},
            r"yardstick.max_bytes is 7 \(int\); use 8 or more",
        ),
        (
            "pseudo",
            {"max_bytes": 20, "min_bytes": 30},
            "min_bytes is 30, above max_bytes 20; use at most that",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    kind: str, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        load_yardstick(kind, changes)


def test_a_run_is_measured_by_what_it_read_and_was_asked() -> None:
    text, pairs = Corpus(), Corpus(sources=(CopyLanguage(),))
    for objective in (CausalLM(), UL2(), LastToken()):
        assert default_yardstick(text, objective) == DocumentHalves()
    assert default_yardstick(text, MaskedLM()) == PseudoHalves()
    assert (
        default_yardstick(
            text,
            Mixture(
                components=(
                    MixtureComponent(objective=MaskedLM()),
                    MixtureComponent(objective=CausalLM()),
                )
            ),
        ).kind
        == "halves"
    )
    assert default_yardstick(pairs, CausalLM()) == HeldOutPairs()
