"""Several processes invent what one does, in the same order."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Generator

import pytest

from paribus.corpus.languages import inventors
from paribus.corpus.languages.inventors import invented_documents
from paribus.corpus.languages.questions import block_sizes, language_documents
from paribus.errors import SpecError
from paribus.spec.languages import (
    CopyLanguage,
    InventedLanguage,
    RecallLanguage,
    RegressionLanguage,
    SortLanguage,
)
from paribus.watcher import Watcher

LANGUAGES = [
    RegressionLanguage(n_documents=2500, noise=0.5),
    RecallLanguage(n_documents=2500, form="conversations"),
    SortLanguage(n_documents=2500, form="preferences"),
]


class Counter(Watcher):
    """Counts what it is told."""

    def __init__(self) -> None:
        self.amount = 0

    def advance(self, amount: int) -> None:
        self.amount += amount


@pytest.fixture(autouse=True)
def _processes_for_a_few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventors, "MIN_BLOCKS", 2)


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.kind)
def test_processes_invent_the_same_documents(language: InventedLanguage) -> None:
    counter = Counter()
    assert len(block_sizes(language)) == 3
    assert list(invented_documents(language, counter, 2)) == list(
        language_documents(language, Watcher())
    )
    assert counter.amount == language.n_documents


def test_a_reader_that_stops_stops_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []
    start = inventors._start

    def start_and_note(number: int, n_workers: int) -> subprocess.Popen[str]:
        started.append(start(number, n_workers))
        return started[-1]

    monkeypatch.setattr(inventors, "_start", start_and_note)
    documents = invented_documents(LANGUAGES[0], Watcher(), 2)
    assert isinstance(documents, Generator)
    assert next(documents) == next(language_documents(LANGUAGES[0], Watcher()))
    documents.close()
    assert [process.poll() for process in started] == [-signal.SIGKILL] * 2


def test_a_process_that_dies_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    documents = list(invented_documents(LANGUAGES[0], Watcher(), 2))
    assert documents == list(language_documents(LANGUAGES[0], Watcher()))


def test_an_error_of_the_language_is_told() -> None:
    phrasings = ("{source}=", "a{source}=")
    language = CopyLanguage(n_documents=2500, phrasings=phrasings)
    with pytest.raises(SpecError, match="phrasings that make"):
        list(invented_documents(language, Watcher(), 2))
