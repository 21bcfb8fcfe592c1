"""Whose turn it is at compiling is told from what the code reads, so that a later stage has a turn
of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_corpus import build_small_corpus

from paribus.objectives import Problem
from paribus.spec.run import load_run
from paribus.train.cuda_graph import code_key
from paribus.train.loader import ProblemLoader

LENGTH = 24
ARCHITECTURE = {"preset": "gpt2", "n_layers": 1, "d_model": 8, "attention": {"n_heads": 1}}


def problems(
    folder: Path, objective: str, form: str, n: int, has_encoder: bool = False
) -> list[Problem]:
    """The first problems of a stage, each of four sequences."""
    source = {"kind": "copy", "n_documents": 200, "form": form, "min_length": 2, "max_length": 10}
    dataset = build_small_corpus(folder, source, valid=0.1)
    training = {"n_steps": 20, "n_sequences": 4, "length": LENGTH, "warmup": 1}
    table: dict[str, Any] = {
        "architecture": ARCHITECTURE | ({"encoder": {"n_layers": 1}} if has_encoder else {}),
        "corpus": dataset.spec.model_dump(mode="json"),
        "objective": objective,
        "training": training,
    }
    loader = ProblemLoader(dataset, load_run(table).last, has_encoder, False)
    return [loader.problems_at(k)[0] for k in range(n)]


def test_all_splits_of_a_text_have_one_turn(tmp_path: Path) -> None:
    found = problems(tmp_path, "prefix", "text", 8)
    assert len({problem.inputs.layout.prefix for problem in found}) > 1
    assert len({code_key([problem]) for problem in found}) == 1


def test_each_split_of_an_encoder_decoder_has_a_turn(tmp_path: Path) -> None:
    found = problems(tmp_path, "prefix", "text", 8, has_encoder=True)
    lengths = {problem.inputs.layout.length for problem in found}
    assert len({code_key([problem]) for problem in found}) == len(lengths) > 1


@pytest.mark.parametrize("has_encoder", [False, True])
def test_pairs_have_a_turn_of_their_own_after_text_of_one_size(
    tmp_path: Path, has_encoder: bool
) -> None:
    (text,) = problems(tmp_path / "text", "prefix", "text", 1, has_encoder)
    (pair,) = problems(tmp_path / "pairs", "seq2seq", "pairs", 1, has_encoder)
    if not has_encoder:
        assert text.inputs.tokens_BT.shape == pair.inputs.tokens_BT.shape
    assert code_key([text]) != code_key([pair])
