"""Tasks asked of runs: the same items for all, kept with each, read again, and never half
written.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from paribus.corpus import TokenisedCorpus, prepare_corpus
from paribus.errors import RecordError, SpecError
from paribus.evaluate.tasks import TaskSubject, evaluate_task, overlap_share
from paribus.evaluate.tasks.run import ask_prepared, prepare_task
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.record import TaskEvaluation, read_evaluations, read_task_evaluations
from paribus.spec.run import load_run
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import FewShot, Task, ZeroShot
from paribus.train.loop import train
from paribus.workspace import Workspace

CPU = torch.device("cpu")
RECALL = {"kind": "recall", "n_documents": 300, "min_length": 3, "max_length": 4}


def trained(home: Path, name: str, preset: str, objective: str, length: int) -> TaskSubject:
    small: dict[str, Any] = {"preset": preset, "n_layers": 1, "d_model": 16}
    small["attention"] = {"n_heads": 2}
    if preset == "t5":
        small["encoder"] = {"n_layers": 1}
    table = {
        "architecture": small,
        "corpus": {"sources": [{**RECALL, "form": "text"}]},
        "objective": objective,
        "training": {"n_steps": 2, "n_sequences": 4, "length": length, "valid_batches": 1},
    }
    spec = load_run(table)
    text = prepare_corpus(spec.stages[0].corpus, home / "cache", show_progress=False)
    run = train(spec, text, Workspace(home / "runs", device="cpu"), name=name)
    return TaskSubject(load_checkpoint(run.folder), (text,))


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> tuple[TaskSubject, ...]:
    home = tmp_path_factory.mktemp("home")
    return (
        trained(home, "causal", "gpt2", "causal", 40),
        trained(home, "spans", "t5", "prefix", 32),
        trained(home, "masked", "bert", "masked", 40),
    )


def questions(tmp_path: Path, n_items: int = 6) -> Path:
    path = tmp_path / "questions.jsonl"
    rows = [{"q": f"q{n} ", "o": ["yes", "no"], "k": n % 2} for n in range(n_items)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def choices(tmp_path: Path, **fields: Any):
    table = {"kind": "choices", "context": "{q}", "options": "{o}", "key": "{k}"}
    return load_task({**table, "paths": str(questions(tmp_path)), "name": "own", **fields})


def test_all_are_asked_the_same_and_each_keeps_its_rows(
    subjects: tuple[TaskSubject, ...], tmp_path: Path
) -> None:
    task = choices(tmp_path)
    evaluations = evaluate_task(subjects, task, device=CPU)
    assert len({evaluation.head.items for evaluation in evaluations}) == 1
    assert [evaluation.head.label for evaluation in evaluations] == [
        "likelihood",
        "likelihood",
        "pseudo-likelihood",
    ]
    for subject, evaluation in zip(subjects, evaluations, strict=True):
        folder = subject.checkpoint.run
        assert folder is not None
        assert evaluation in list(read_task_evaluations(folder))
        assert list(read_evaluations(folder)) == []
        assert evaluation.head.n_items == len(evaluation.answers) == 6
        assert evaluation.head.measure == "accuracy"
        assert evaluation.head.floors["uniform"] == 0.5
        assert {answer.overlaps for answer in evaluation.answers} == {False}
        assert overlap_share(evaluation) == 0.0
        assert (evaluation.head.step, len(evaluation.head.weights)) == (1, 64)
    assert evaluate_task(subjects, task, device=CPU) == evaluations


def test_other_prompts_are_another_record(
    subjects: tuple[TaskSubject, ...], tmp_path: Path
) -> None:
    first, second = (
        evaluate_task(subjects[:1], choices(tmp_path, context=context), device=CPU)[0]
        for context in ("{q}", "{q}?")
    )
    assert first.head.items != second.head.items
    folder = subjects[0].checkpoint.run
    assert folder is not None
    records = list(read_task_evaluations(folder))
    assert first in records
    assert second in records


def test_answers_that_were_changed_are_not_read(
    subjects: tuple[TaskSubject, ...], tmp_path: Path
) -> None:
    task = choices(tmp_path, name="changed", separator="|")
    evaluate_task(subjects[:1], task, device=CPU)
    folder = subjects[0].checkpoint.run
    assert folder is not None
    (path,) = [
        path
        for path in (folder / "evaluations").iterdir()
        if '"separator":"|"' in path.read_text().partition("\n")[0]
    ]
    path.write_text(path.read_text().replace('"score":1.0', '"score":0.0'))
    with pytest.raises(RecordError, match="is not what was written"):
        evaluate_task(subjects[:1], task, device=CPU)
    path.unlink()


def test_a_bad_file_leaves_nothing_half_written(
    subjects: tuple[TaskSubject, ...], tmp_path: Path
) -> None:
    task = choices(tmp_path, name="bad")
    questions(tmp_path, 3)
    path = tmp_path / "questions.jsonl"
    path.write_text(path.read_text() + '{"q": "x"}\n')
    folder = subjects[0].checkpoint.run
    assert folder is not None
    before = sorted((folder / "evaluations").iterdir())
    with pytest.raises(SpecError, match=r"questions.jsonl line 4 has no column 'o'"):
        evaluate_task(subjects, task, device=CPU)
    assert sorted((folder / "evaluations").iterdir()) == before


def test_demonstrations_are_the_same_for_every_run(
    subjects: tuple[TaskSubject, ...],
) -> None:
    task = load_task(
        "recall-choices", {"language.n_documents": 400, "language.max_length": 4, "n_items": 5}
    )
    evaluations = evaluate_task(subjects, task, FewShot(n_demonstrations=3), device=CPU)
    protocols = [evaluation.head.protocol for evaluation in evaluations]
    assert protocols[0] == protocols[1] == protocols[2]
    assert 0 < protocols[0]["most"] <= 3
    alone = evaluate_task(subjects[:1], task, FewShot(n_demonstrations=3), device=CPU)[0]
    assert alone.head.protocol["most"] >= protocols[0]["most"]


def test_labels_have_their_own_measure(subjects: tuple[TaskSubject, ...], tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("".join(f"gj\t{n % 2}\t\tword {n}\n" for n in range(7)))
    task = load_task({"reader": "cola", "paths": str(path), "context": "{text}"})
    (evaluation,) = evaluate_task(subjects[:1], task, device=CPU)
    assert evaluation.head.measure == "matthews"
    assert evaluation.score == evaluation.head.summary["matthews"]
    assert "macro f1" in evaluation.head.summary


def test_generation_is_kept_with_its_texts(subjects: tuple[TaskSubject, ...]) -> None:
    task = load_task(
        "recall", {"language.n_documents": 400, "n_items": 4, "language.max_length": 4}
    )
    for evaluation in evaluate_task(subjects[:2], task, device=CPU):
        assert (evaluation.head.label, evaluation.head.measure) == ("generation", "exact match")
        assert all(isinstance(answer.chosen, str) for answer in evaluation.answers)
        assert "bits per byte" in evaluation.head.summary


@pytest.fixture
def tasks_of_a_kind(kind: str, tmp_path: Path) -> list[Task]:
    """One task by several measures; the first is asked."""
    if kind == "choices":
        measures = ("accuracy", "log loss", "bits per byte")
        return [choices(tmp_path, name="twice", measure=measure) for measure in measures]
    if kind == "labels":
        path = tmp_path / "dev.tsv"
        path.write_text("".join(f"gj\t{n % 3 % 2}\t\tword {n}\n" for n in range(11)))
        cola = {"reader": "cola", "paths": str(path), "context": "{text}", "name": "twice"}
        measures = ("accuracy", "matthews", "macro f1")
        return [load_task({**cola, "measure": measure}) for measure in measures]
    sizes = {"language.n_documents": 400, "n_items": 5, "language.max_length": 4}
    changes = {**sizes, "name": "twice"}
    measures = ("exact match", "f1", "reward", "bits per byte")
    return [load_task("recall", {**changes, "measure": measure}) for measure in measures]


@pytest.mark.parametrize("kind", ["choices", "labels", "generation"])
def test_a_task_by_another_measure_has_the_answers_that_asking_again_would_give(
    subjects: tuple[TaskSubject, ...],
    tasks_of_a_kind: list[Task],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, *others = tasks_of_a_kind
    for subject in subjects[:2]:
        asked: dict[str, TaskEvaluation] = {}
        for task in others:
            prepared = prepare_task(task, ZeroShot(), [subject])
            asked[task.measure] = ask_prepared(subject, prepared, CPU)
        (previous,) = evaluate_task([subject], first, device=CPU)
        with monkeypatch.context() as patch:
            patch.setattr(LoadedCheckpoint, "restore", refuse_to_answer)
            for task in others:
                (scored,) = evaluate_task([subject], task, device=CPU)
                fresh = asked[task.measure]
                assert scored.answers == fresh.answers
                head = replace(fresh.head, step=1, weights=previous.head.weights)
                assert scored.head == head
                assert scored.head.measure == task.measure
                assert subject.checkpoint.run is not None
                assert scored in list(read_task_evaluations(subject.checkpoint.run))


def refuse_to_answer(*_: Any, **__: Any) -> None:
    raise AssertionError("a model was asked")


def test_texts_are_not_to_be_had_from_the_bits_of_references(
    subjects: tuple[TaskSubject, ...],
) -> None:
    changes = {"language.n_documents": 400, "n_items": 3, "name": "bits first"}
    bits, exact = (
        load_task("recall", {**changes, "measure": measure, "language.max_length": 4})
        for measure in ("bits per byte", "exact match")
    )
    evaluate_task(subjects[:1], bits, device=CPU)
    (evaluation,) = evaluate_task(subjects[:1], exact, device=CPU)
    prepared = prepare_task(exact, ZeroShot(), subjects[:1])
    assert evaluation.answers == ask_prepared(subjects[0], prepared, CPU).answers


def test_tags_are_not_asked_in_words(subjects: tuple[TaskSubject, ...]) -> None:
    task = load_task({"reader": "conll", "paths": "x.conll", "labels": ["O", "B"]})
    with pytest.raises(SpecError, match="of kind 'tags', which only a trained head answers"):
        evaluate_task(subjects[:1], task, device=CPU)


def test_a_task_about_python_needs_a_run_that_reads_it(
    subjects: tuple[TaskSubject, ...],
) -> None:
    with pytest.raises(SpecError, match="ask a run that reads 'python-docs'"):
        evaluate_task(subjects[:1], load_task("docstring-package"), device=CPU)
    with pytest.raises(SpecError, match="0 functions with a summary"):
        evaluate_task(subjects[:1], load_task("function-summary"), device=CPU)
    alone = TaskSubject(subjects[0].checkpoint)
    with pytest.raises(SpecError, match="and a checkpoint has none"):
        evaluate_task([alone], load_task("docstring-package"), device=CPU)


def test_runs_that_read_different_texts_are_not_asked_about_them_together(
    subjects: tuple[TaskSubject, ...], tmp_path: Path
) -> None:
    other = load_run({**SMALL, "corpus": {"sources": [{**RECALL, "seed": 1, "form": "text"}]}})
    text: TokenisedCorpus = prepare_corpus(
        other.stages[0].corpus, tmp_path / "cache", show_progress=False
    )
    pair = [subjects[0], TaskSubject(subjects[0].checkpoint, (text,))]
    with pytest.raises(SpecError, match="the runs, which read different texts"):
        evaluate_task(pair, load_task("docstring-package"), device=CPU)


SMALL: dict[str, Any] = {
    "architecture": {"preset": "gpt2", "n_layers": 1, "d_model": 16, "attention": {"n_heads": 2}},
    "training": {"n_steps": 1, "n_sequences": 4, "length": 24},
}
