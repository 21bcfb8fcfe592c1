"""Samples of lm-evaluation-harness lie under what was asked, whole and listed."""

import json
from pathlib import Path

from paribus.record.checksums import file_faults
from paribus.record.lm_eval_samples import write_lm_eval_samples

QUESTION = {"task": "pick", "framing": "plain", "n_fewshot": 0, "n_items": 2}
SAMPLES = [{"doc_id": 0, "acc": 1.0}, {"doc_id": 1, "acc": 0.0}]


def test_a_head_stands_above_one_line_per_sample(tmp_path: Path) -> None:
    path = write_lm_eval_samples(tmp_path, QUESTION, {"model_sha": "ab"}, SAMPLES)
    head, *rows = map(json.loads, path.read_text().splitlines())
    assert head == {**QUESTION, "model_sha": "ab"}
    assert rows == SAMPLES
    assert path.parent == tmp_path / "lm-eval"


def test_later_answers_to_a_question_take_the_place_of_earlier_ones(tmp_path: Path) -> None:
    first = write_lm_eval_samples(tmp_path, QUESTION, {"model_sha": "ab"}, SAMPLES)
    again = write_lm_eval_samples(tmp_path, QUESTION, {"model_sha": "cd"}, SAMPLES)
    other = write_lm_eval_samples(tmp_path, {**QUESTION, "n_items": 1}, {}, SAMPLES[:1])
    assert first == again
    assert other != first
    assert len(list((tmp_path / "lm-eval").iterdir())) == 2


def test_a_sample_that_was_changed_is_noticed(tmp_path: Path) -> None:
    path = write_lm_eval_samples(tmp_path, QUESTION, {}, SAMPLES)
    name = f"lm-eval/{path.name}"
    assert not file_faults(tmp_path, (name,))
    path.write_text(path.read_text().replace("1.0", "0.5"))
    assert file_faults(tmp_path, (name,))
