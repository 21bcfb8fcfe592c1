"""Where a run begins: the weights of a checkpoint, as a person names it and as it is recorded."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from paribus.spec.base import Spec

N_SHOWN_DIGITS = 12  # of a sha256
SHA256_PATTERN = r"^[0-9a-f]{64}$"
SHA256 = Annotated[str, StringConstraints(pattern=SHA256_PATTERN)]


class BeginFrom(Spec):
    """A run or a checkpoint whose weights the first stage begins with. `begin = "NAME"` is short
    for `begin = { name = "NAME" }`.
    """

    name: Annotated[str, Field(min_length=1)]
    """A run, by its name or its folder, or the folder of a checkpoint, also of an imported one. A
    path with a `/` is relative to the file that names it.
    """
    weights: SHA256 | None = None
    """The sha256 of the checkpoint's weights. Other weights are refused. If left out: whatever
    weights are there.
    """


class Begin(Spec):
    """The checkpoint that a run begins with, where none of its own stages trained it."""

    name: str
    weights: SHA256
    tokenizer: SHA256
    # from the working directory; none where only the record of a run knows of it
    path: Annotated[str, Field(exclude_if=lambda path: not path)] = ""

    @property
    def label(self) -> str:
        """What it is called, and the first digits of the sha256 of its weights."""
        return f"{self.name} ({self.weights[:N_SHOWN_DIGITS]})"
