import pytest

from paribus.errors import ParibusError, RecordError, SpecError, UnsupportedError


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
