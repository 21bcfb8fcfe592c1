"""The known name that a person may have meant by one that is not known."""

import difflib
from collections.abc import Iterable


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The one of `candidates` that is spelled most like `word`; None where none is close."""
    close = difflib.get_close_matches(word, list(candidates), n=1)
    if close:
        return close[0]
    return None


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A question with the nearest name, to stand before what would do; empty where none is
    close.
    """
    return suggestion(nearest(word, candidates))


def suggestion(name: str | None) -> str:
    """The question whether a name was meant, with a space behind it; empty without a name."""
    if name is None:
        return ""
    return f"did you mean {name!r}? "
