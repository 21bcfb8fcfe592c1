"""The known name that a person may have meant by one that is not known."""

import difflib
from collections.abc import Iterable


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is spelled most like `given`; None where none is close."""
    close = difflib.get_close_matches(given, list(known), n=1)
    return close[0] if close else None


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A question with the nearest name, to stand before what would do; empty where none is close."""
    return suggestion(nearest(given, known))


def suggestion(name: str | None) -> str:
    """The question whether a name was meant, with a space behind it; empty without a name."""
    return "" if name is None else f"did you mean {name!r}? "
