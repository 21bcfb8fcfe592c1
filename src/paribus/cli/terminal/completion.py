"""Completion in a shell, by typer: verbs by their names alone, and the options of the one that
is typed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import typer

VARIABLE = "_PARIBUS_COMPLETE"  # by which a shell asks
OPTIONS = ("--install-completion", "--show-completion")
_LINE_VARIABLES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")  # where shells put the line so far


def is_asked_to_complete(words: Sequence[str]) -> bool:
    """Whether a shell asks what could come next, or a person how to have that."""
    return VARIABLE in os.environ or words[:1] in ([OPTIONS[0]], [OPTIONS[1]])


def complete(
    words: Sequence[str], lines: Mapping[str, str], load: Callable[[str], Callable[..., None]]
) -> int:
    """Answer the shell, or install or show what makes it ask; `lines` has each verb's help,
    `load` gives its command.

    Only the verb that is typed is loaded, for some need seconds to be.
    """
    app = typer.Typer(rich_markup_mode=None)
    typed_verb = _typed_verb()
    for verb, line in lines.items():
        command = _nothing
        if verb == typed_verb:
            command = load(verb)
        app.command(verb, help=line)(command)
    try:
        typer.main.get_command(app).main(list(words), "paribus")
    except SystemExit as done:
        if isinstance(done.code, int):
            return done.code
        return 0
    return 0


def _typed_verb() -> str | None:
    """The verb of the line that a shell has so far."""
    line = ""
    for name in reversed(_LINE_VARIABLES):
        line = os.environ.get(name, line)
    return next(iter(line.split()[1:2]), None)


def _nothing() -> None:
    """Stands for a verb of which only the name is needed."""
