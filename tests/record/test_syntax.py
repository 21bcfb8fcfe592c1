"""A hash of code: the same however it is written, another as soon as it says something else."""

import pytest

from paribus.record.syntax import syntax_digest

SAMPLE = b'''
"""A module."""
from __future__ import annotations
import math as m

LIMIT: int = 0x10  # sixteen


class Box(dict[str, int]):
    """Something."""

    def size(self, *names: str, wide: bool = False, **others: float) -> str:
        """How large."""
        width = len(names)
        text = "a" "b" f"{width:>{m.floor(2.5)}}" f"{width!r:^{width}.{LIMIT}f} {others=}" "c"
        match names:
            case [first, *rest] if rest and (n := len(first)) > 1:
                return text[n:-1] + "\\u00e9\\ud800"
            case _:
                return b"x".hex() if wide else text


async def later() -> None:
    """Nothing yet."""
'''


def test_the_hash_is_the_same_under_every_version_of_python() -> None:
    assert (
        syntax_digest(SAMPLE) == "02433c6b4c57a912b284eb7ca3eda77cd8fffaaa1c9543e67cc269722bcc0cc3"
    )


@pytest.mark.parametrize(
    ("written", "another"),
    [
        (b"# sixteen", b"# 16, in hexadecimal"),
        (b'"""A module."""', b""),
        (b'"""How large."""', b'"""How large it is,\n\n        in words.\n        """'),
        (b'"""Nothing yet."""', b'"""Not yet."""'),
        (b"0x10", b"16"),
        (b'"a" "b"', b"'ab'"),
        (b"width = len(names)", b"width = (len(\n            names,\n        ))"),
        (b"if wide else text", b"if (wide) else (text)"),
        (b"\n\n\n", b"\n"),
    ],
)
def test_how_code_is_written_does_not_matter(written: bytes, another: bytes) -> None:
    assert written in SAMPLE
    assert syntax_digest(SAMPLE.replace(written, another)) == syntax_digest(SAMPLE)


@pytest.mark.parametrize(
    ("written", "another"),
    [
        (b"0x10", b"17"),
        (b"0x10", b"16.0"),
        (b"0x10", b'"16"'),
        (b"2.5", b"2.5000000000000004"),
        (b"names", b"titles"),
        (b"wide: bool = False", b"wide: bool = True"),
        (b'"a" "b"', b'"a" "c"'),
        (b"!r", b"!s"),
        (b":>{", b":<{"),
        (b"text[n:-1]", b"text[:-1]"),
        (b'b"x"', b'b"y"'),
        (b"async def", b"def"),
        (b"import math as m", b"import cmath as m"),
        (
            b"        width = len(names)\n",
            b'        width = len(names)\n        "not a docstring"\n',
        ),
    ],
)
def test_what_code_says_matters(written: bytes, another: bytes) -> None:
    assert written in SAMPLE
    assert syntax_digest(SAMPLE.replace(written, another)) != syntax_digest(SAMPLE)


def test_nesting_matters() -> None:
    assert syntax_digest(b"if a:\n    b\nc") != syntax_digest(b"if a:\n    b\n    c")
    assert syntax_digest(b"f([a], b)") != syntax_digest(b"f([a, b])")


def test_what_describes_a_field_does_not_matter() -> None:
    field = b"class Spec:\n    rate: float = 1.0\n"
    assert syntax_digest(field) == syntax_digest(field + b'    """The peak rate."""\n')
    assert syntax_digest(field) != syntax_digest(field + b"    rate\n")
