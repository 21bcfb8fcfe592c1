"""How far judged arms differ in text: what is large, and what could have been equal."""

import pytest

from paribus.analyse import TextRead, text_differences
from paribus.analyse.text_read import epochs_by_text, parse_epochs

FIRST = TextRead(100, 1000.0, (1.0, 0.5), "question")
PAIRS = [("second", "first")]


def one(second: TextRead, budget: str = "tokens_read"):
    (found,) = text_differences(budget, PAIRS, {"first": FIRST, "second": second})
    return found


def test_bytes_epochs_and_the_steps_of_equal_bytes() -> None:
    found = one(TextRead(60, 750.0, (0.75, 0.35), "question"))
    assert (found.bytes_difference, found.epochs_difference) == pytest.approx((-0.25, -0.3))
    assert (found.n_steps, found.steps_for_equal_bytes) == (60, 80)
    assert found.is_large
    assert found.is_confound


@pytest.mark.parametrize(
    ("second", "large"),
    [
        (TextRead(60, 750.0, (0.75, 0.35), "another"), True),  # another question has its own text
        (TextRead(60, 750.0, (1.0, 0.5), "question"), True),  # bytes of a sample
        (
            TextRead(60, 1000.0, (0.75, 0.35), "question"),
            True,
        ),  # rows that were too short for some texts
        (TextRead(60, 990.0, (0.99, 0.5), "question"), False),
    ],
)
def test_what_could_not_have_been_equal_is_no_confound(second: TextRead, large: bool) -> None:
    found = one(second)
    assert (found.is_large, found.is_confound) == (large, False)


def test_a_step_that_cannot_be_divided_confounds_nothing() -> None:
    assert one(TextRead(3, 850.0, (0.85, 0.42), "question")).steps_for_equal_bytes == 4
    close = one(TextRead(5, 960.0, (0.96, 0.48), "question"))
    assert (close.steps_for_equal_bytes, close.is_large, close.is_confound) == (5, True, False)


def test_other_sources_are_compared_by_the_one_read_most() -> None:
    assert one(TextRead(60, 1000.0, (2.0,), "another")).epochs_difference == 1.0


def test_a_text_without_bytes_is_no_reason_to_stop() -> None:
    found = one(TextRead(60, 0.0, (1.0, 0.5), "another"))
    assert (found.bytes_difference, found.steps_for_equal_bytes) == (0.0, 60)


@pytest.mark.parametrize("budget", [None, "bytes_read", "training_flops"])
def test_only_budgets_of_tokens_choose_the_text(budget: str | None) -> None:
    assert text_differences(budget, PAIRS, {"first": FIRST, "second": FIRST}) == ()
    assert one(FIRST, "tokens_scored").bytes_difference == 0


def test_epochs_are_written_by_stage_and_added_up_by_text() -> None:
    stages = parse_epochs("8.3; 1.18, 0.59")
    assert stages == ((8.3,), (1.18, 0.59))
    assert epochs_by_text(stages, ["a", "b"]) == (8.3, 1.18, 0.59)
    assert epochs_by_text(((0.5,), (0.75,), (2.0,)), ["a", "a", "b"]) == (1.25, 2.0)
    # an older plan has those of the last text alone
    assert epochs_by_text(parse_epochs("0.845"), ["a", "b"]) == (0.845,)


def test_stages_that_share_a_text_in_one_arm_alone_are_compared_one_by_one() -> None:
    epochs = ((0.436,), (0.436,))
    shared = TextRead.of_stages(60, 1000.0, epochs, ["text", "text"], "question")
    apart = TextRead.of_stages(60, 1000.0, ((0.417,), (0.458,)), ["one", "two"], "another")
    assert shared.epochs == (0.872,)
    (found,) = text_differences("tokens_read", PAIRS, {"first": shared, "second": apart})
    assert found.epochs_difference == pytest.approx(0.458 / 0.436 - 1)
    again = TextRead.of_stages(60, 1000.0, ((0.2,), (0.672,)), ["text", "text"], "another")
    (found,) = text_differences("tokens_read", PAIRS, {"first": shared, "second": again})
    assert found.epochs_difference == pytest.approx(0.0)  # of one text, whichever stage reads it
