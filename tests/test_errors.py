import pytest

from paribus.errors import (
    ConfoundError,
    ParibusError,
    RecordError,
    SpecError,
    UnsupportedError,
    quote,
)


def test_one_problem_is_the_whole_message():
    fault = SpecError("a is 1; use 2")
    assert fault.problems == ("a is 1; use 2",)
    assert str(fault) == "a is 1; use 2"


def test_several_problems_stand_on_a_line_each():
    fault = SpecError(["a is 1; use 2", "b is 3; use 5"])
    assert fault.problems == ("a is 1; use 2", "b is 3; use 5")
    assert str(fault) == "a is 1; use 2\nb is 3; use 5"


@pytest.mark.parametrize("kind", [SpecError, UnsupportedError, RecordError])
def test_every_refusal_can_be_caught_as_one(kind):
    with pytest.raises(ParibusError, match="no"):
        raise kind("no")


def test_twenty_problems_are_told_and_how_many_more_there_are():
    fault = SpecError([f"a{number} is wrong; leave it out" for number in range(20_000)])
    lines = str(fault).split("\n")
    assert lines[:20] == list(fault.problems[:20])
    assert lines[20:] == ["and 19,980 more problems; correct these first"]
    assert len(fault.problems) == 20_000
    assert str(ConfoundError(fault.problems)) == str(fault)
    assert str(SpecError(fault.problems[:20])) == "\n".join(fault.problems[:20])


def test_a_problem_and_a_value_have_a_length():
    assert len(str(SpecError("x" * 1_000_000))) == 2000
    assert quote("x") == "'x'"
    assert quote(["x"] * 16) == repr(["x"] * 16)  # 80 letters
    assert quote("a" * 500 + "b" * 500) == f"'{'a' * 38} … {'b' * 37}'"
