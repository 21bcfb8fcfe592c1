"""Answers of an engine for coroutines: pieces as they come, and no answer that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from paribus.serve.spoken_answer import SpokenAnswer, SpokenPiece


async def spoken_pieces(
    answers: Sequence[SpokenAnswer],
) -> AsyncIterator[tuple[int, SpokenPiece | None]]:
    """Pieces with the number of their answer, as they come; None when an answer has ended.

    Whoever leaves the iteration ends all answers.
    """
    loop = asyncio.get_running_loop()
    wakes: asyncio.Queue[int] = asyncio.Queue()
    try:
        for number, answer in enumerate(answers):
            answer.handle.listen(_waker(loop, wakes, number))
        n_open = len(answers)
        while n_open:
            number = await wakes.get()
            answer = answers[number]
            if answer.is_finished:
                continue
            piece = answer.read()
            if piece is not None:
                yield number, piece
            if answer.is_finished:
                n_open -= 1
                yield number, None
    finally:
        for answer in answers:
            answer.close()


def _waker(
    loop: asyncio.AbstractEventLoop, wakes: asyncio.Queue[int], number: int
) -> Callable[[], None]:
    return partial(_wake, loop, partial(wakes.put_nowait, number))


def _wake(loop: asyncio.AbstractEventLoop, put: Callable[[], None]) -> None:
    """Called in the engine's thread. A loop that is closed waits for nothing."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(put)
