"""Questions about the held-out Python of a run: which summary belongs to a function, which package
a docstring is from.

Only documents of the asked split are used, and the answer is taken out of the context.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from random import Random

from paribus.corpus.dataset import TokenisedCorpus
from paribus.corpus.python_extract import extract_documents, function_summaries
from paribus.corpus.python_files import PACKAGES, installed_files
from paribus.corpus.splits import Split
from paribus.corpus.summary import document_text
from paribus.corpus.tasks.rows import TaskRow
from paribus.errors import SpecError
from paribus.runtime import derive_seed
from paribus.spec.corpus import PythonCode, PythonDocs, PythonSummaries

N_SUMMARIES = 4
MIN_SUMMARY_BYTES = 12
MAX_CONTEXT_BYTES = 1200
_WHOLE_DOCUMENT = 2**62  # tokens
# words with the name of a package in them, and what packages are called when they are imported
_PACKAGE_NAMES = re.compile(r"\w*(?:torch|numpy|scipy|python)\w*|\b(?:np|sp)\b", re.IGNORECASE)
_GAP = "…"


def corpus_rows(reader: str, split: Split, dataset: TokenisedCorpus | None) -> Iterator[TaskRow]:
    """The rows of a task that takes its items from the text of a run."""
    if dataset is None:
        raise SpecError(
            f"task {reader} takes its items from the text of a run; ask it of a run that reads"
            " Python, or use a task with files"
        )
    if reader == "function-summary":
        return _summary_rows(dataset, split)
    return _package_rows(dataset, split)


def _summary_rows(dataset: TokenisedCorpus, split: Split) -> Iterator[TaskRow]:
    """Functions without their docstrings, each with its summary among those of three others."""
    functions: dict[str, str] = {}
    for number, source in enumerate(dataset.spec.sources):
        if isinstance(source, PythonCode | PythonSummaries):
            functions.update(_functions(dataset, split, number))
    summaries = sorted(set(functions.values()))
    if len(summaries) < N_SUMMARIES:
        raise SpecError(
            f"the {split} text of the run has {len(summaries)} functions with a summary of"
            f" {MIN_SUMMARY_BYTES} bytes or more; ask a run that reads 'python-code' or"
            " 'python-summaries'"
        )
    for function, summary in functions.items():
        rng = Random(derive_seed(0, "task", "function-summary", function))
        options = [summary]
        while len(options) < N_SUMMARIES:
            other = rng.choice(summaries)
            if other not in options:
                options.append(other)
        rng.shuffle(options)
        values = {
            "function": function,
            "options": tuple(options),
            "key": str(options.index(summary)),
            "id": _digest(function + summary),
        }
        yield TaskRow(f"function {summary[:40]!r}", values)


def _functions(dataset: TokenisedCorpus, split: Split, source: int) -> Iterator[tuple[str, str]]:
    reader = dataset.readers[split][source]
    for number in range(reader.shard.n_documents):
        pieces = document_text(dataset, split, source, number, _WHOLE_DOCUMENT)
        pairs = [pieces] if len(pieces) == 2 else _parse_functions(pieces[0])
        for function, summary in pairs:
            short = function.strip("\n")
            is_long = len(short.encode()) > MAX_CONTEXT_BYTES
            if len(summary.encode()) >= MIN_SUMMARY_BYTES and not is_long and short.strip():
                yield short.replace(summary, _GAP), summary


def _parse_functions(code: str) -> list[tuple[str, ...]]:
    """The functions of a document of code; none where it is a piece that cannot be parsed."""
    try:
        return [pair for pair in function_summaries(code) if all(map(str.strip, pair))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _package_rows(dataset: TokenisedCorpus, split: Split) -> Iterator[TaskRow]:
    """Docstrings of the asked split, with the package that each was read from."""
    earlier: set[str] = set()
    for number, source in enumerate(dataset.spec.sources):
        if not isinstance(source, PythonDocs):
            continue
        packages = _docstring_packages(source)
        reader = dataset.readers[split][number]
        for place in range(reader.shard.n_documents):
            text = document_text(dataset, split, number, place, _WHOLE_DOCUMENT)[0]
            package = packages.get(text)
            cleaned = _PACKAGE_NAMES.sub(_GAP, _first_bytes(text))
            if package is None or cleaned in earlier:
                continue
            earlier.add(cleaned)
            name = _digest(text)
            yield TaskRow(
                f"docstring {text[:40]!r}", {"docstring": cleaned, "label": package, "id": name}
            )
    if not earlier:
        raise SpecError(
            f"the {split} text of the run has no docstring of a known package; ask a run that reads"
            " 'python-docs'"
        )


def _docstring_packages(source: PythonDocs) -> dict[str, str]:
    """The package of each docstring; one that several packages have is left out."""
    packages: dict[str, str] = {}
    shared: set[str] = set()
    for name, path in installed_files(source).items():
        package = name.partition("/")[0]
        for texts in extract_documents(str(path), "docs"):
            text = texts[0]
            if packages.setdefault(text, package) != package:
                shared.add(text)
    for text in shared:
        del packages[text]
    assert set(packages.values()) <= {"python", *PACKAGES}
    return packages


def _first_bytes(text: str) -> str:
    return text.encode()[:MAX_CONTEXT_BYTES].decode(errors="ignore")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
