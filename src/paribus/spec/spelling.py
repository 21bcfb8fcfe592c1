"""What was probably meant by a word that is not known here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(given: str, known: Iterable[str]) -> str:
    """`did you mean 'rotary'? ` where a known word is like the one that was given, else nothing."""
    near = difflib.get_close_matches(given, list(known), n=1)
    return f"did you mean {near[0]!r}? " if near else ""
