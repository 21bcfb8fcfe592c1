"""What cannot be asked of a generation is refused, by name and with what would do."""

from typing import Any

import pytest

from paribus.errors import SpecError
from paribus.generate import Sampling

NAN = float("nan")
BAD = [
    ({"top_k": -1}, "top_k is -1; use a whole number from 0 up"),
    ({"top_k": 2.5}, r"top_k is 2\.5; use a whole number from 0 up"),
    ({"top_k": True}, "top_k is True; use a whole number from 0 up"),
    ({"top_p": 0}, "top_p is 0; use a number above 0 and at most 1"),
    ({"top_p": 1.1}, r"top_p is 1\.1; use a number above 0 and at most 1"),
    ({"top_p": NAN}, "top_p is nan; use a number above 0 and at most 1"),
    ({"min_p": -0.1}, r"min_p is -0\.1; use a number from 0 to 1"),
    ({"min_p": NAN}, "min_p is nan; use a number from 0 to 1"),
    (
        {"repetition_penalty": 0},
        "repetition_penalty is 0; use a number above 0, and below infinity",
    ),
    (
        {"repetition_penalty": NAN},
        "repetition_penalty is nan; use a number above 0, and below infinity",
    ),
    ({"n_samples": 0}, "n_samples is 0; use a whole number from 1 up"),
    ({"n_logprobs": -1}, "n_logprobs is -1; use a whole number from 0 up"),
    ({"stop": ("x",) * 1000}, "stop has 1,000 strings; use at most 64"),
    (
        {"stop": ("x", "")},
        r"stop\.1 is empty, and would stop every answer at once; give it a letter",
    ),
    ({"stop": ("x" * 1001,)}, r"stop\.0 has 1,001 letters; use at most 1,000"),
    ({"stop": (3,)}, r"stop\.0 is 3; use a string"),
    ({"stop": "x"}, "stop is 'x'; use a tuple of strings"),
    ({"n_beams": 0}, "n_beams is 0; use a whole number from 1 up"),
    ({"n_beams": 2, "length_penalty": NAN}, "length_penalty is nan; use a number from -10 to 10"),
    (
        {"length_penalty": 0.5},
        r"length_penalty is 0\.5, which only beams obey; use n_beams above 1 with it",
    ),
    (
        {"n_beams": 2, "temperature": 1.0},
        r"temperature is 1\.0 with n_beams 2, which draws no token by itself; use one or the other",
    ),
    (
        {"n_beams": 2, "n_samples": 3},
        "n_samples is 3 with n_beams 2, which finds no more answers than that; use at most 2",
    ),
    ({"order": "right"}, "order is 'right'; use 'left' or 'confident'"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_what_cannot_be_asked_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=f"^{message}$"):
        Sampling(**given)


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(SpecError) as refused:
        Sampling(temperature=-1, top_p=0, stop=("",))
    assert len(refused.value.problems) == 3


def test_a_list_of_stop_strings_is_a_tuple() -> None:
    sampling = Sampling(stop=["a", "b"])  # pyright: ignore[reportArgumentType]
    assert sampling == Sampling(stop=("a", "b"))
    assert hash(sampling) == hash(Sampling(stop=("a", "b")))
