"""Where sentences begin."""

import re

import numpy as np
from numpy.typing import NDArray

N_LOOKAHEAD = 24  # characters looked at all at once before the rare long gaps are taken one by one


def _byte_class(letters: bytes) -> NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[list(letters)] = True
    return table


_STOP = _byte_class(b".!?")
_BREAK = _byte_class(b".!?\n")
_SPACE = _byte_class(b" \t\r\n\f\v")
_BLANK = _byte_class(b" \t\r\f\v")
_CLOSE = _byte_class(b"\"')]}*" + "’”".encode())  # byte by byte: no other sign is made of these


def sentence_starts(text: bytes) -> NDArray[np.int64]:
    """The bytes at which a sentence begins, besides the first: after `.`, `!` or `?` and space,
    or an empty line.

    Quotes and brackets that close belong to the sentence before them.
    """
    letters = np.frombuffer(text + b"x", np.uint8)  # one more, so that looking ahead ends inside
    breaks = np.flatnonzero(_BREAK[letters])
    ends_sentence = _STOP[letters[breaks]]
    stops, lines = breaks[ends_sentence] + 1, breaks[~ends_sentence] + 1
    after_stops = _skip(letters, stops, _CLOSE, text)
    after_stops = after_stops[_SPACE[letters[after_stops]]]
    after_lines = _skip(letters, lines, _BLANK, text)
    after_lines = after_lines[letters[after_lines] == ord("\n")]
    starts = _skip(letters, np.concatenate([after_stops, after_lines]), _SPACE, text)
    return np.unique(starts[starts < len(text)])


def _skip(
    letters: NDArray[np.uint8],
    places: NDArray[np.int64],
    byte_class: NDArray[np.bool_],
    text: bytes,
) -> NDArray[np.int64]:
    """Each place moved past all letters of a class."""
    for _ in range(N_LOOKAHEAD):
        inside = byte_class[letters[places]]
        if not inside.any():
            return places
        places = places + inside
    run = re.compile(b"[" + re.escape(bytes(np.flatnonzero(byte_class).tolist())) + b"]*")
    for number in np.flatnonzero(byte_class[letters[places]]):
        match = run.match(text, int(places[number]))
        assert match is not None
        places[number] = match.end()
    return places
