"""Untrained models are at a floor: on every kind of task, the mean of twenty seeds lies within its
interval of what length alone or the majority scores.

A seed draws its weights and, of invented languages, its items. So the interval over seeds holds
the chance of both. It is Student's, at a level that leaves 5 % for all tasks together (Bonferroni);
the seeds are fixed, so a test that passes goes on passing.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from byte_models import BYTE_TOKENIZER
from scipy import stats
from tiny_model import tiny_architecture

from paribus.corpus import TokenisedCorpus, prepare_corpus
from paribus.corpus.tasks import ChoiceItem, choice_items, generation_items
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks import ask_choices, ask_generation
from paribus.model import Transformer, build
from paribus.spec import Corpus
from paribus.spec.objectives import CausalLM, Objective, PrefixLM
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import ChoicesTask, GenerationTask, LabelsTask, Normalisation

N_SEEDS = 20
N_ITEMS = 32
LENGTHS = {
    "copy": (4, 8),
    "reverse": (4, 8),
    "sort": (4, 8),
    "recall": (3, 5),
    "linear": (3, 5),
    "translation": (3, 5),
    "arithmetic": (2, 3),
    "regression": (1, 3),
    "classification": (1, 3),
}
ARMS: list[tuple[str, Objective]] = [
    ("llama", CausalLM()),
    ("gpt2", CausalLM()),
    ("t5", PrefixLM()),
]
CASES = [(kind, *arm) for kind in LENGTHS for arm in ARMS]
N_TASKS = len(CASES) + len(LENGTHS) + 3  # with tied ones, and those that are no language
Items = Sequence[ChoiceItem]


def language_table(kind: str, seed: int) -> dict[str, Any]:
    shortest, longest = LENGTHS[kind]
    lengths = {"min_length": shortest, "max_length": longest}
    return {"kind": kind, "n_documents": 300, "seed": seed, **lengths}


@cache
def language_items(kind: str, seed: int) -> Items:
    table = {"kind": "choices", "language": language_table(kind, seed), "n_items": N_ITEMS}
    task = load_task(table)
    assert isinstance(task, ChoicesTask)
    return choice_items(task)


def untrained(preset: str, seed: int, max_length: int = 97, tied: bool = False) -> Transformer:
    sizes = {"n_vocab": 512, "max_length": max_length, "n_layers": 1, "head.tied": tied}
    return build(tiny_architecture(preset, sizes), seed=seed)


def distances(
    draw_items: Callable[[int], Items],
    normalisation: Normalisation,
    arm: tuple[str, Objective] = ARMS[0],
    tied: bool = False,
) -> tuple[dict[str, float], float]:
    """How far the mean score of all seeds lies above each floor, and half its interval."""
    preset, objective = arm
    scores: list[float] = []
    floors: list[dict[str, float]] = []
    for seed in range(N_SEEDS):
        items = draw_items(seed)
        longest = max(len(item.context.encode()) for item in items) + 97
        model = untrained(preset, seed, longest, tied)
        asked = AskedModel(model, objective, BYTE_TOKENIZER)
        result = ask_choices(asked, items, normalisation)
        scores.append(float(np.mean([answer.score for answer in result.answers])))
        floors.append(result.floors)
    level = 1 - 0.05 / N_TASKS
    half = float(stats.sem(scores) * stats.t.ppf((1 + level) / 2, N_SEEDS - 1))
    above: dict[str, float] = {}
    for name in floors[0]:
        above[name] = float(np.mean(scores) - np.mean([own[name] for own in floors]))
    return above, half


def require_floor(above: dict[str, float], half: float) -> None:
    nearest = min(abs(above["length"]), abs(above["majority"]))
    assert nearest <= half, f"{above} beside an interval of ±{half}"
    assert half < 0.3  # an interval that holds everything would say nothing


@pytest.mark.parametrize(
    ("kind", "preset", "objective"), CASES, ids=lambda value: getattr(value, "kind", value)
)
def test_choices_of_a_language(kind: str, preset: str, objective: Objective) -> None:
    arm = (preset, objective)
    require_floor(*distances(lambda seed: language_items(kind, seed), "sum", arm))


@pytest.mark.parametrize("kind", [kind for kind in LENGTHS if kind != "sort"])
def test_tied_embeddings_move_no_other_task(kind: str) -> None:
    require_floor(*distances(lambda seed: language_items(kind, seed), "sum", ARMS[1], tied=True))


@pytest.mark.parametrize("arm", ARMS, ids=[preset for preset, _ in ARMS])
def test_tied_embeddings_are_above_the_floor_where_answers_are_sorted(
    arm: tuple[str, Objective],
) -> None:
    """They tend to say a letter again, and equal letters stand side by side in the right answer."""
    above, half = distances(lambda seed: language_items("sort", seed), "sum", arm, tied=True)
    assert above["length"] > half


def draw_pairs(seed: int) -> Items:
    """Sentences with one word more or less, of which either is right."""
    rng = np.random.default_rng([7, seed])
    items: list[ChoiceItem] = []
    for number in range(N_ITEMS):
        options = tuple(words(rng, int(rng.integers(2, 6))) for _ in range(2))
        items.append(ChoiceItem(str(number), str(number), "", options, int(rng.integers(2))))
    return items


def words(rng: np.random.Generator, n_words: int) -> str:
    letters = list("abcdefghijklmnopqrstuvwxyz")
    return " ".join("".join(rng.choice(letters, rng.integers(1, 8))) for _ in range(n_words))


def test_minimal_pairs() -> None:
    require_floor(*distances(draw_pairs, "sum"))


def test_labels_in_words(tmp_path: Path) -> None:
    """Seven of ten texts have one label: an untrained model says one of the two nearly always."""
    rng = np.random.default_rng(11)
    rows = []
    for number in range(N_SEEDS * N_ITEMS):
        rows.append(f"{words(rng, 4)} {number}\t{int(rng.random() < 0.7)}\n")
    path = tmp_path / "texts.tsv"
    path.write_text("sentence\tlabel\n" + "".join(rows))
    table = {"kind": "labels", "paths": str(path), "text": "{sentence}", "label": "{label}"}
    task = load_task({**table, "labels": ["0", "1"], "options": [" negative", " positive"]})
    assert isinstance(task, LabelsTask)
    items = choice_items(task)
    require_floor(
        *distances(lambda seed: items[seed * N_ITEMS : (seed + 1) * N_ITEMS], task.normalisation)
    )


@pytest.fixture
def python_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], TokenisedCorpus]:
    """A small installation whose words say nothing of where they are from."""
    rng = np.random.default_rng(13)
    files: dict[str, Path] = {}
    for package in ("python", "torch", "numpy", "scipy"):
        for number in range(15):
            path = tmp_path / f"{package}{number}.py"
            source = f'"""{words(rng, 6)}."""\n'
            for _ in range(4):
                name = words(rng, 1)
                source += f'\ndef f{name}(x):\n    """{words(rng, 6)}."""\n    return {name!r}\n'
            path.write_text(source)
            files[f"{package}/{number}.py"] = path
    for module in ("paribus.corpus.python_files", "paribus.corpus.tasks.corpus_rows"):
        monkeypatch.setattr(f"{module}.installed_files", lambda source: files)

    def prepare(kind: str) -> TokenisedCorpus:
        spec = Corpus.model_validate({"sources": [{"kind": kind}], "test": 0.9, "valid": 0.0})
        return prepare_corpus(spec, tmp_path / "cache", show_progress=False, n_workers=1)

    return prepare


@pytest.mark.parametrize(
    ("name", "source"),
    [("function-summary", "python-summaries"), ("docstring-package", "python-docs")],
)
def test_tasks_over_the_text_of_a_run(
    python_text: Callable[[str], TokenisedCorpus], name: str, source: str
) -> None:
    task = load_task(name)
    assert isinstance(task, ChoicesTask | LabelsTask)
    items = choice_items(task, "test", python_text(source))
    assert len(items) >= 5 * N_SEEDS
    require_floor(*distances(lambda seed: items[seed::N_SEEDS], task.normalisation))


@pytest.mark.parametrize("kind", LENGTHS)
def test_generated_answers_are_never_right(kind: str) -> None:
    """The floor is the most frequent reference; a model that knows no letter is not above it."""
    task = load_task({"language": language_table(kind, 0), "n_items": 10})
    assert isinstance(task, GenerationTask)
    items = generation_items(task)
    scores: list[float] = []
    for seed in range(N_SEEDS):
        asked = AskedModel(untrained("llama", seed), CausalLM(), BYTE_TOKENIZER)
        result = ask_generation(asked, task, items)
        scores.append(float(np.mean([answer.score for answer in result.answers])))
        assert result.floors["majority"] >= 1 / len(items)
    assert np.mean(scores) <= 0.01
