"""Tokens of answers are found again by their conversation, and by nobody else."""

from __future__ import annotations

from paribus.corpus.conversations import Turn
from paribus.serve.turn_memory import TurnMemory

ASKED = [Turn("user", "a")]
ANSWER = Turn("assistant", "b")


def test_an_answer_is_found_by_all_that_was_said_before_it() -> None:
    memory = TurnMemory()
    memory.remember(ASKED, "b", (7, 8), b"salt")
    longer = [*ASKED, ANSWER, Turn("user", "c")]
    assert memory.recall(longer, b"salt") == [None, (7, 8), None]
    assert memory.recall(longer, b"other") == [None, None, None]
    assert memory.recall([Turn("user", "x"), ANSWER], b"salt") == [None, None]
    assert memory.recall([Turn("user", "ab"), ANSWER], b"salt") == [None, None]
    assert memory.recall([Turn("user", "a"), Turn("user", "b")], b"salt") == [None, None]


def test_the_least_recently_used_answer_is_forgotten_first() -> None:
    memory = TurnMemory(max_tokens=3 * 100)
    for name in "xyz":
        memory.remember([Turn("user", name)], "b", (1,) * 36, b"")
    memory.recall([Turn("user", "x"), ANSWER], b"")
    memory.remember([Turn("user", "w")], "b", (1,) * 36, b"")
    found = {
        name: memory.recall([Turn("user", name), ANSWER], b"")[1] is not None for name in "wxyz"
    }
    assert found == {"w": True, "x": True, "y": False, "z": True}


def test_the_same_answer_counts_once() -> None:
    memory = TurnMemory(max_tokens=100)
    for _ in range(5):
        memory.remember(ASKED, "b", (1,) * 36, b"")
    assert memory.recall([*ASKED, ANSWER], b"")[1] == (1,) * 36
