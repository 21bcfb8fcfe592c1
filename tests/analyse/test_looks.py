import re

import pytest

from paribus.analyse import alpha_at_look, look_at, validate_looks
from paribus.errors import SpecError


def test_declared_looks_have_their_shares() -> None:
    assert validate_looks({10: 0.04, 5: 0.01}) == {5: 0.01, 10: 0.04}
    assert alpha_at_look({5: 0.01, 10: 0.04}, 10) == 0.04
    assert alpha_at_look({7: 0.05}, 7) == 0.05
    assert validate_looks({5: 0.01, 8: 0.015, 10: 0.025})  # adds up to 0.05 but for rounding


def test_a_look_that_was_not_declared_is_refused() -> None:
    with pytest.raises(
        SpecError,
        match="looks: 7 seeds are not a declared look; read verdicts at 5, 10, or declare",
    ):
        alpha_at_look({5: 0.01, 10: 0.04}, 7)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            {5: 0.02, 10: 0.04},
            "looks: the shares add up to 0.06, above 0.05; lower them, as in {5: 0.01, 10: 0.04}",
        ),
        ({2: 0.05}, "looks: 2 is not a number of seeds to look at; use 3 or more"),
        ({True: 0.05}, "looks: True is not a number of seeds"),
        ({5: 0.0}, "looks.5 is 0, which is not a share; use above 0, up to 0.05"),
        ({5: float("nan")}, "looks.5 is nan, which is not a share"),
        ({}, "looks: none declared, so there is no verdict to read; use {5: 0.05}"),
    ],
)
def test_looks_that_could_mislead_are_refused(declared: dict[int, float], message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        validate_looks(declared)


def test_a_look_knows_its_place_among_those_declared() -> None:
    found = look_at({10: 0.04, 5: 0.01}, 5)
    assert (
        found.number,
        found.n_looks,
        found.n_seeds,
        found.n_planned_seeds,
        found.family_alpha,
    ) == (
        1,
        2,
        5,
        10,
        0.01,
    )
    assert found.description.startswith(
        "Look 1 of 2: the verdict is read at 5 of 10 seeds, and spends 1 % of false alarms"
    )
