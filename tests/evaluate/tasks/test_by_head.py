"""Tasks in files, answered by a fine-tuned head."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from labelled_texts import (
    EVEN_LETTERS,
    ODD_LETTERS,
    labels_run,
    run_texts,
    tags_run,
    write_labelled,
)

from paribus.analyse.task_scores import label_measures, matthews, score_interval
from paribus.errors import SpecError
from paribus.evaluate.tasks import TaskSubject, evaluate_task
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.record import TaskEvaluation
from paribus.spec.run import RunSpec
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import FewShot
from paribus.train.chain import train_chain
from paribus.workspace import Workspace

CPU = torch.device("cpu")
LEARNS: dict[str, Any] = {
    "stages.1.training.n_steps": 60,
    "stages.1.training.checkpoint_every": 60,
    "stages.1.training.optimizer.rate": 1e-2,
}
LABELS = {
    "kind": "labels",
    "name": "halves",
    "text": "{text}",
    "label": "{label}",
    "labels": ["even", "odd"],
}
# names of one or two words among other words
SENTENCES = [
    "bdf fhj aceg",
    "acegik moqs bdfh",
    "bdfh aceg fhjl nprt",
    "aceg",
    "nprt",
    "moqs acegik",
    "fhjl nprt aceg bdf",
]


def trained(run: RunSpec, home: Path) -> TaskSubject:
    texts = run_texts(run, home / "cache")
    folder = train_chain(run, texts, Workspace(home / "runs", home / "cache", "cpu")).folder
    return TaskSubject(load_checkpoint(folder))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("by-head")


@pytest.fixture(scope="module")
def texts_path(home: Path) -> Path:
    return write_labelled(home / "texts.jsonl")


@pytest.fixture(scope="module")
def labeller(home: Path, texts_path: Path) -> TaskSubject:
    return trained(labels_run(texts_path, LEARNS), home)


def span_tags(sentence: str) -> list[str]:
    """Words of even letters are names; one right after another goes on with it."""
    tags: list[str] = []
    for word in sentence.split():
        is_name = word[0] in EVEN_LETTERS
        goes_on = is_name and bool(tags) and tags[-1] != "O"
        tags.append({(True, False): "B-N", (True, True): "I-N"}.get((is_name, goes_on), "O"))
    return tags


def write_conll(path: Path, sentences: list[str]) -> Path:
    blocks = []
    for sentence in sentences:
        words = zip(sentence.split(), span_tags(sentence), strict=True)
        blocks.append("".join(f"{word} {tag}\n" for word, tag in words))
    path.write_text("\n".join(blocks))
    return path


@pytest.fixture(scope="module")
def tagger(home: Path) -> TaskSubject:
    draws = np.random.default_rng(5)
    sentences = []
    for _ in range(200):
        words = []
        for _ in range(int(draws.integers(1, 5))):
            letters = list(EVEN_LETTERS if draws.random() < 0.5 else ODD_LETTERS)
            words.append("".join(draws.choice(letters, 3)))
        sentences.append(" ".join(words))
    path = write_conll(home / "train.conll", sentences)
    return trained(tags_run(path, {**LEARNS, "stages.1.objective.n_labels": 3}), home)


def ask(subject: TaskSubject, table: dict[str, Any]) -> TaskEvaluation:
    (evaluation,) = evaluate_task([subject], load_task(table), device=CPU)
    return evaluation


def test_labels_of_a_file_are_given_by_the_head(labeller: TaskSubject, texts_path: Path) -> None:
    evaluation = ask(labeller, {**LABELS, "paths": str(texts_path), "measure": "matthews"})
    head, answers = evaluation.head, evaluation.answers
    assert (head.label, head.protocol) == ("fine-tuned head", {"kind": "head"})
    written = [json.loads(line)["label"] for line in texts_path.read_text().splitlines()]
    assert len(answers) == len(written) == head.n_items
    keys = [LABELS["labels"][answer.key] for answer in answers]
    assert sorted(keys) == sorted(written)
    confusion = np.zeros((2, 2))
    for answer in answers:
        confusion[answer.key, answer.chosen] += 1
    assert evaluation.score == pytest.approx(float(matthews(confusion)))
    assert evaluation.score > 0.5
    assert head.floors == {"uniform": 0, "majority": 0}
    low, high = score_interval(evaluation) or (0, 0)
    assert low <= evaluation.score <= high


def test_a_label_that_does_not_occur_counts_as_it_does_in_words(
    labeller: TaskSubject, texts_path: Path, tmp_path: Path
) -> None:
    lines = texts_path.read_text().splitlines(keepends=True)
    path = tmp_path / "even.jsonl"
    path.write_text("".join(line for line in lines if json.loads(line)["label"] == "even"))
    evaluation = ask(labeller, {**LABELS, "paths": str(path), "measure": "macro f1"})
    assert evaluation.head.floors["majority"] == 0.5
    assert evaluation.score == label_measures(evaluation.answers, 2)["macro f1"] <= 0.5


def test_answers_are_kept_and_read_again(labeller: TaskSubject, texts_path: Path) -> None:
    table = {**LABELS, "paths": str(texts_path)}
    first = ask(labeller, table)
    assert labeller.checkpoint.run is not None
    kept = list((labeller.checkpoint.run / "evaluations").iterdir())
    assert ask(labeller, table) == first
    assert list((labeller.checkpoint.run / "evaluations").iterdir()) == kept
    assert first.head.step > 0


@pytest.mark.parametrize("measure", ["accuracy", "span f1"])
def test_tags_of_a_file_are_given_by_the_head(
    tagger: TaskSubject, tmp_path: Path, measure: str
) -> None:
    path = write_conll(tmp_path / "test.conll", SENTENCES)
    table = {
        "kind": "tags",
        "reader": "conll",
        "paths": str(path),
        "labels": ["O", "B-N", "I-N"],
        "measure": measure,
    }
    evaluation = ask(tagger, table)
    assert len(evaluation.answers) == len(SENTENCES)
    by_key = {answer.key for answer in evaluation.answers}
    assert by_key == {" ".join(span_tags(sentence)) for sentence in SENTENCES}
    assert evaluation.score > (evaluation.highest_floor or 0)
    if measure == "accuracy":
        n_right = sum(answer.score for answer in evaluation.answers)
        n_words = sum(len(sentence.split()) for sentence in SENTENCES)
        assert evaluation.score == pytest.approx(n_right / n_words)
        assert set(evaluation.head.floors) == {"uniform", "majority"}
    low, high = score_interval(evaluation) or (0, 0)
    assert low <= evaluation.score <= high


def test_what_a_head_cannot_answer_is_refused(
    labeller: TaskSubject, texts_path: Path, tmp_path: Path
) -> None:
    labels = load_task({**LABELS, "paths": str(texts_path)})
    with pytest.raises(SpecError, match="a trained head, which reads no demonstrations"):
        evaluate_task([labeller], labels, FewShot(), device=CPU)
    others = load_task(
        {**LABELS, "paths": str(texts_path), "label": "{other}", "labels": ["x", "y"]}
    )
    with pytest.raises(SpecError, match="but the head was trained for 'even', 'odd'"):
        evaluate_task([labeller], others, device=CPU)
    path = write_conll(tmp_path / "test.conll", SENTENCES)
    tags = load_task({"reader": "conll", "paths": str(path), "labels": ["O", "B-N", "I-N"]})
    with pytest.raises(SpecError, match="gives no tags of words"):
        evaluate_task([labeller], tags, device=CPU)


def test_spans_need_tags_that_mark_them(tmp_path: Path) -> None:
    table = {"reader": "conll", "paths": str(tmp_path), "measure": "span f1"}
    with pytest.raises(SpecError, match="'NOUN', which marks no span"):
        load_task({**table, "labels": ["NOUN", "VERB"]})
    with pytest.raises(SpecError, match="'B-', which marks no span"):
        load_task({**table, "labels": ["O", "B-"]})
