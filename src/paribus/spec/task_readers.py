"""Formats of published tasks: the columns that a reader gives, and the templates it is asked with
unless a task has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ReaderEntry:
    """A format: what it is, the endings of its files, the columns of a row, the task by default,
    and whether several tasks are published in it.
    """

    about: str
    suffixes: tuple[str, ...]  # () where items come from the text of a run
    columns: tuple[str, ...]
    task: Mapping[str, Any] = field(default_factory=dict)
    has_many_tasks: bool = False  # tasks of this format are told apart by their names


def _choices(**fields: Any) -> dict[str, Any]:
    return {"kind": "choices", "options": " {options}", "key": "{key}", **fields}


def _labels(labels: tuple[str, ...], options: tuple[str, ...], **fields: Any) -> dict[str, Any]:
    table = {"kind": "labels", "text": "{text}", "label": "{label}", "id": "{id}"}
    return {**table, "labels": labels, "options": options, **fields}


_INSTRUCTION_COLUMNS = ("question", "options", "key", "id")

READERS: dict[str, ReaderEntry] = {
    "blimp": ReaderEntry(
        about="Minimal pairs of grammar: one sentence is right, the other wrong.",
        suffixes=(".jsonl",),
        columns=("sentence_good", "sentence_bad", "UID", "pairID", "field", "linguistics_term"),
        task={
            "kind": "choices",
            "options": ("{sentence_good}", "{sentence_bad}"),
            "key": "0",
            "id": "{UID}-{pairID}",
            "document": "{UID}",
            "normalisation": "sum",
        },
    ),
    "lambada": ReaderEntry(
        about="The last word of a passage.",
        suffixes=(".jsonl",),
        columns=("context", "word", "id"),
        task={
            "kind": "generation",
            "source": "{context}",
            "references": " {word}",
            "measure": "exact match",
            "stop": ("\n", ".", ",", "!", "?", ";", ":", '"'),
            "n_words": 1,
            "id": "{id}",
        },
    ),
    "mmlu": ReaderEntry(
        about="Questions of 57 subjects with four answers.",
        suffixes=(".csv",),
        columns=("question", "options", "key", "subject", "id"),
        task=_choices(context="{question}\nAnswer:", id="{id}"),
    ),
    "instruction-choices": ReaderEntry(
        about=(
            "ARC, OpenBookQA, PIQA, SIQA and BoolQ rewritten as instructions; the options are"
            " parsed back out."
        ),
        suffixes=(".json", ".jsonl"),
        columns=_INSTRUCTION_COLUMNS,
        task=_choices(context="Question: {question}\nAnswer:", id="{id}"),
        has_many_tasks=True,
    ),
    "arc": ReaderEntry(
        about="ARC as published: a question, options with labels, the label of the right one.",
        suffixes=(".jsonl",),
        columns=_INSTRUCTION_COLUMNS,
        task=_choices(context="Question: {question}\nAnswer:", id="{id}"),
        has_many_tasks=True,
    ),
    "winogrande": ReaderEntry(
        about=(
            "A sentence with a blank and two fillers, as published or rewritten as instructions."
            " The sentence is scored with each."
        ),
        suffixes=(".json", ".jsonl"),
        columns=("sentence", "options", "key", "id"),
        task=_choices(options="{options}", id="{id}", normalisation="sum"),
    ),
    "sst2": ReaderEntry(
        about="Sentiment of phrases of film reviews.",
        suffixes=(".tsv",),
        columns=("text", "label", "id"),
        task=_labels(("0", "1"), (" negative", " positive"), context="{text}\nSentiment:"),
    ),
    "cola": ReaderEntry(
        about="Is a sentence acceptable English?",
        suffixes=(".tsv",),
        columns=("text", "label", "source", "id"),
        task=_labels(
            ("0", "1"),
            (" no", " yes"),
            context="{text}\nIs this sentence correct?",
            measure="matthews",
        ),
    ),
    "rte": ReaderEntry(
        about="Does the second text follow from the first? RTE, and WNLI with other labels.",
        suffixes=(".tsv",),
        columns=("text", "second", "label", "id"),
        task=_labels(
            ("not_entailment", "entailment"),
            (" False", " True"),
            second="{second}",
            context="{text}\nQuestion: {second} True or False?\nAnswer:",
        ),
        has_many_tasks=True,
    ),
    "ag-news": ReaderEntry(
        about="The topic of a news item.",
        suffixes=(".tsv", ".csv"),
        columns=("text", "label", "id"),
        task=_labels(
            ("World", "Sports", "Business", "Sci/Tech"),
            (" world", " sports", " business", " science"),
            context="{text}\nTopic:",
        ),
    ),
    "trec": ReaderEntry(
        about="What a question asks for: one of six coarse types.",
        suffixes=(".txt", ".label"),
        columns=("text", "label", "fine", "id"),
        task=_labels(
            ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
            (" abbreviation", " description", " entity", " person", " place", " number"),
            context="{text}\nThis asks for a",
        ),
    ),
    "parallel-lines": ReaderEntry(
        about=(
            "Translation as Multi30k has it, line by line: paths are a file of sources, the file of"
            " its targets, and so on."
        ),
        suffixes=("any",),
        columns=("source", "target", "id"),
        task={
            "kind": "generation",
            "source": "{source}\n",
            "references": "{target}",
            "measure": "bleu",
            "stop": ("\n",),
            "id": "{id}",
        },
        has_many_tasks=True,
    ),
    "e2e": ReaderEntry(
        about="Sentences about restaurants from slots and values.",
        suffixes=(".csv",),
        columns=("mr", "ref"),
        task={
            "kind": "generation",
            "source": "{mr}\n",
            "references": "{ref}",
            "measure": "bleu",
            "stop": ("\n",),
            "merge_sources": True,
        },
    ),
    "gsm8k": ReaderEntry(
        about="Word problems whose answers end in `#### number`.",
        suffixes=(".jsonl",),
        columns=("question", "answer"),
        task={
            "kind": "generation",
            "source": "Question: {question}\nAnswer:",
            "references": " {answer}",
            "measure": "exact match",
            "answer_after": "####",
            "max_tokens": 256,
            "stop": ("\nQuestion:",),
        },
    ),
    "squad": ReaderEntry(
        about="SQuAD's JSON: a passage, a question, and spans that answer it.",
        suffixes=(".json",),
        columns=("title", "passage", "question", "answers", "id"),
        task={
            "kind": "generation",
            "source": "{passage}\nQuestion: {question}\nAnswer:",
            "references": " {answers}",
            "measure": "f1",
            "stop": ("\n",),
            "id": "{id}",
            "document": "{title}",
        },
        has_many_tasks=True,
    ),
    "conll": ReaderEntry(
        about="CoNLL's columns: a word per line, its tag in the last column, a blank line between.",
        suffixes=(".conll", ".txt", ".bio", ".tsv"),
        columns=("words", "tags"),
        task={"kind": "tags"},
        has_many_tasks=True,
    ),
    "function-summary": ReaderEntry(
        about=(
            "Which of four summaries belongs to this function? From the test split of a run that"
            " reads Python."
        ),
        suffixes=(),
        columns=("function", "options", "key", "id"),
        task=_choices(context="{function}\n# Summary:", id="{id}", unconditional="# Summary:"),
    ),
    "docstring-package": ReaderEntry(
        about=(
            "Which package is this docstring from? Names of packages are taken out. From the test"
            " split of a run that reads Python's documentation."
        ),
        suffixes=(),
        columns=("docstring", "label", "id"),
        task={
            "kind": "labels",
            "text": "{docstring}",
            "label": "{label}",
            "labels": ("python", "torch", "numpy", "scipy"),
            "options": (" python", " torch", " numpy", " scipy"),
            "context": "{docstring}\n\nPackage:",
            "unconditional": "Package:",
            "id": "{id}",
        },
    ),
}
LANGUAGE_TASK: Mapping[str, Any] = {
    "kind": "generation",
    "source": "{question}",
    "references": "{answer}",
    "measure": "exact match",
    "separator": "\n",
    "stop": ("\n",),
    "n_items": 200,
}
LANGUAGE_CHOICES: Mapping[str, Any] = {
    "kind": "choices",
    "context": "{question}",
    "options": "{options}",
    "key": "{key}",
    "separator": "\n",
    "unconditional": "=",
    "normalisation": "sum",
    "n_items": 200,
}
