"""Demonstrations help a model for which they say something.

Two thirds of the prompts that it is trained on answer every question with a dash, the others
truly. Which of the two a prompt is, only its demonstrations tell.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from paribus.corpus import prepare_corpus
from paribus.corpus.tasks import generation_items
from paribus.evaluate.tasks import TaskSubject, evaluate_task
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.spec.run import load_run
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import FewShot, GenerationTask
from paribus.train.loop import train
from paribus.workspace import Workspace

LANGUAGES: dict[str, dict[str, Any]] = {
    "recall": {"kind": "recall", "n_symbols": 6, "min_length": 1, "max_length": 2},
    "linear": {"kind": "linear", "modulus": 3, "min_length": 2, "max_length": 3},
}
N_PROMPTS = 20_000
pytestmark = pytest.mark.slow  # two minutes of training


def language_task(name: str) -> GenerationTask:
    task = load_task({"language": {**LANGUAGES[name], "n_documents": 4000}})
    assert isinstance(task, GenerationTask)
    return task


def write_prompts(path: Path) -> None:
    """Questions after up to two others, as demonstrations stand; none of them is asked later."""
    draw = Random(0)
    questions: dict[str, list[tuple[str, str]]] = {}
    for name in LANGUAGES:
        items = generation_items(language_task(name), "train")
        questions[name] = [(item.source, item.references[0]) for item in items]
    with path.open("w") as file:
        for _ in range(N_PROMPTS):
            some = draw.sample(questions[draw.choice(list(LANGUAGES))], draw.randint(1, 3))
            if draw.random() < 2 / 3:
                some = [(question, "-") for question, _ in some]
            *shown, (question, answer) = some
            prompt = "\n".join([*(one + its_answer for one, its_answer in shown), question])
            file.write(json.dumps({"source": prompt, "target": answer}) + "\n")


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> TaskSubject:
    home = tmp_path_factory.mktemp("shots")
    write_prompts(home / "prompts.jsonl")
    table = {
        "architecture": {
            "preset": "llama",
            "n_layers": 2,
            "d_model": 48,
            "attention": {"n_heads": 4, "n_kv_heads": 4},
            "feed_forward": {"d_ff": 128},
        },
        "corpus": {"sources": [{"kind": "pairs", "paths": str(home / "prompts.jsonl")}]},
        "objective": "seq2seq",
        "training": {
            "n_steps": 1500,
            "n_sequences": 48,
            "length": 32,
            "optimizer": {"rate": 3e-3},
            "valid_batches": 1,
        },
    }
    spec = load_run(table)
    text = prepare_corpus(spec.stages[0].corpus, home / "cache", show_progress=False)
    run = train(spec, text, Workspace(home / "runs", device="cpu"), name="run")
    return TaskSubject(load_checkpoint(run.folder), (text,))


@pytest.mark.parametrize("name", LANGUAGES)
def test_demonstrations_beat_the_question_alone(subject: TaskSubject, name: str) -> None:
    task, cpu = language_task(name), torch.device("cpu")
    (alone,) = evaluate_task([subject], task, device=cpu)
    (shown,) = evaluate_task([subject], task, FewShot(n_demonstrations=1), device=cpu)
    assert alone.score < 0.1
    assert shown.highest_floor is not None
    assert shown.score > shown.highest_floor + 0.1
