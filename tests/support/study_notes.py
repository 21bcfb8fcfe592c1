"""What a scheduler notes while it carries out a study."""

from __future__ import annotations

from paribus.design.study_watcher import StudyWatcher


class NoteTaker(StudyWatcher):
    """Remembers notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)
