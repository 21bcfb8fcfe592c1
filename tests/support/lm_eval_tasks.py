"""A folder of small tasks for lm-evaluation-harness, with their data, and nothing fetched."""

from pathlib import Path
from typing import Any

import yaml
from small_corpus import write_jsonl

CHOICES = [
    {"question": "the cat sat on", "options": ["the mat", "a", "the dog that barked"], "key": 0},
    {"question": "where were we ", "options": ["then", "there", "now"], "key": 1},
    {"question": "abc abc abc\n\n", "options": ["abc", "cba", "b"], "key": 0},
    {"question": "one two three four five", "options": ["x", "y", "z"], "key": 2},
    {"question": "longer than it reads " * 4, "options": ["so", "its beginning goes"], "key": 0},
    {"question": "", "options": ["nothing before it", "or"], "key": 1},
]
# lm-eval's own models cannot go on from nothing
PROMPTS = [row for row in CHOICES if row["question"]]
TEXTS = [
    {"text": "a short one"},
    {"text": "a text that is longer than what the model reads at once, " * 3},
    {"text": "z"},
]


def write_tasks(folder: Path) -> Path:
    """`pick` has choices, `follow` a text of any length, `say` a text to go on from."""
    folder.mkdir(parents=True)
    choices = write_jsonl(folder / "choices.jsonl", CHOICES)
    prompts = write_jsonl(folder / "prompts.jsonl", PROMPTS)
    texts = write_jsonl(folder / "texts.jsonl", TEXTS)
    _write_task(
        folder / "pick.yaml",
        choices,
        output_type="multiple_choice",
        doc_to_text="{{question}}",
        doc_to_choice="{{options}}",
        doc_to_target="key",
        metric_list=[_metric("acc"), _metric("acc_norm")],
    )
    _write_task(
        folder / "follow.yaml",
        texts,
        output_type="loglikelihood_rolling",
        doc_to_text="",
        doc_to_target="{{text}}",
        metric_list=[_metric("bits_per_byte", "bits_per_byte", False)],
    )
    _write_task(
        folder / "say.yaml",
        prompts,
        output_type="generate_until",
        doc_to_text="{{question}}",
        doc_to_target="{{options[key]}}",
        generation_kwargs={"until": ["\n\n", "ab"], "do_sample": False, "max_gen_toks": 6},
        metric_list=[_metric("exact_match")],
    )
    return folder


def _metric(name: str, aggregation: str = "mean", higher: bool = True) -> dict[str, Any]:
    return {"metric": name, "aggregation": aggregation, "higher_is_better": higher}


def _write_task(path: Path, data: Path, **fields: Any) -> None:
    table = {
        "task": path.stem,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "metadata": {"version": 1.0},
        **fields,
    }
    path.write_text(yaml.safe_dump(table))
