"""What was probably meant by a word that is not known here: the field's usual word for it, or
the nearest of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from paribus.nearest import did_you_mean, suggestion
from paribus.spec.usual_words import USUAL_KEYS, USUAL_MEANINGS, USUAL_VALUES


def word_advice(value: str, candidates: Iterable[str], field: str = "") -> str:
    """What to say of a word that is not among the known ones: our word for it, else one like
    it, else nothing.

    `field` is the key whose value it is. What is said ends with a space, to stand before the list
    of known words.
    """
    candidates, word = list(candidates), _plain(value)
    if word in USUAL_MEANINGS.get(field, {}):
        return f"{USUAL_MEANINGS[field][word]}; "
    ours = [one for one in USUAL_VALUES.get(word, ()) if one in candidates]
    if ours:
        return f"it is called {ours[0]!r} here; "
    return did_you_mean(value, candidates)


def key_advice(
    key: str, table: str, candidates: Iterable[str], elsewhere: Iterable[str] = (), root: str = ""
) -> str:
    """What to say of a key that a table does not have, where `elsewhere` are the paths of other
    fields.

    Paths begin at the tables of a run or at `design`; `root` is the table that a file holds alone,
    if it does.
    """
    ours = _same_table(USUAL_KEYS.get(_plain(key), ()), table)
    if ours:
        return f"{_key_words(ours[0], table, root)}; "
    same = _same_table(_other_places(key, table, elsewhere), table)
    if len(same) == 1:
        return suggestion(_written_path(same[0], table, root))
    return did_you_mean(key, candidates)


def path_advice(path: str, candidates: Iterable[str]) -> str:
    """What to say of a dotted path that is no field."""
    table, _, key = path.rpartition(".")
    ours = _same_table(USUAL_KEYS.get(_plain(key), ()), table)
    if ours:
        return f"{_key_words(ours[0], '', '')}; "
    return word_advice(path, candidates)


def mask_words(text: str, candidates: Iterable[str]) -> str:
    """What to say behind a complaint about a mask: our words for the usual ones in it."""
    words = dict.fromkeys(re.findall(r"[A-Za-z][\w-]*", text))
    hints = [
        f"{word!r} is called {ours!r} here" for word in words for ours in _allowed(word, candidates)
    ]
    return "".join(f"; {one}" for one in hints)


def _other_places(key: str, table: str, paths: Iterable[str]) -> list[str]:
    """The paths of fields of this name, but for one at the same place, which is of another kind."""
    return [path for path in paths if path.rpartition(".")[2] == key and path != f"{table}.{key}"]


def _allowed(word: str, candidates: Iterable[str]) -> list[str]:
    return [one for one in USUAL_VALUES.get(_plain(word), ()) if one in candidates][:1]


def _plain(word: str) -> str:
    return re.sub(r"[\s-]+", "_", word.strip().lower())


def _same_table(paths: Iterable[str], table: str) -> list[str]:
    """The paths under the same first name, where there are any; else all."""
    paths, first = list(dict.fromkeys(paths)), table.partition(".")[0]
    return [path for path in paths if path.partition(".")[0] == first] or paths


def _key_words(target: str, table: str, root: str) -> str:
    path, _, value = target.partition(" = ")
    name = _written_path(path, table, root)
    if value:
        return f"write {name} = {value}"
    return f"it is called {name!r} here"


def _written_path(path: str, table: str, root: str) -> str:
    """A path as one would write it: its key alone in the same table, else from the root of the
    file.
    """
    outer, _, key = path.rpartition(".")
    if outer == table:
        return key
    if root:
        return path.removeprefix(f"{root}.")
    return path
