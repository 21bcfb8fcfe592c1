"""What happens while a study is carried out, told to whoever watches."""

from __future__ import annotations

from collections.abc import Sequence

from paribus.design.cells import Cell
from paribus.watcher import Watcher


class StudyWatcher(Watcher):
    """Told of every round and every cell of a study, too."""

    def begin_round(
        self, name: str, cells: Sequence[Cell], later_flops: float = 0.0
    ) -> StudyWatcher:
        """A round begins, with the FLOPs of those that come after it; who watches its cells."""
        return self

    def begin(self, cell: Cell) -> Watcher:
        """A cell begins; who watches its run, where that is made in this process."""
        return Watcher()

    def put_back(self, cell: Cell) -> None:
        """A cell that had begun waits again: its node was lost or is not fit."""

    def end(self, cell: Cell, fault: str | None) -> None:
        """A cell is done, or failed for a reason."""
