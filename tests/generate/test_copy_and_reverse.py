"""Strings of 20 to 40 symbols that were never seen, copied and reversed to the last one by
greedy decoding.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from paribus.batch import Vocabulary
from paribus.corpus import TokenisedCorpus
from paribus.corpus import prepare_corpus as build_corpus
from paribus.generate import Sampling, continuation
from paribus.model import Transformer, build
from paribus.objectives import pose_problem
from paribus.objectives.framing import item_layout
from paribus.spec import Architecture, Corpus, load
from paribus.spec.objectives import MixtureComponent, Seq2Seq
from paribus.spec.training import AdamW, Training, Trapezoid
from paribus.train.learner import Learner

LENGTH = 82  # question, `=`, answer and end of the longest pair
N_SEQUENCES, N_ASKED = 32, 200
SMALL = {
    "max_length": 84,
    "d_model": 64,
    "n_layers": 2,
    "attention.n_heads": 4,
    "attention.d_head": 16,
    "feed_forward.d_ff": 128,
    "init": "fan_in",
}
ENCODER = {"encoder.n_layers": 2}
TURNED = {"positions": "rotary"}
PLACED = {"positions": "learned"}
NORMED = {"attention.qk_norm": True}
# task, symbols, preset, changes, shortest string read, steps, rate
CASES: dict[str, tuple[str, int, str, dict[str, Any], int, int, float]] = {
    "encoder-decoder copies": (
        "copy",
        10,
        "t5-v1.1",
        {**ENCODER, **PLACED, **NORMED},
        20,
        500,
        6e-3,
    ),
    "encoder-decoder reverses": (
        "reverse",
        26,
        "t5-v1.1",
        {**ENCODER, **TURNED, **NORMED},
        10,
        3000,
        4e-3,
    ),
    "causal copies": ("copy", 26, "llama", TURNED, 20, 4000, 3e-3),
    "causal reverses": ("reverse", 10, "llama", TURNED, 20, 2500, 3e-3),
}


def strings(
    task: str, n_symbols: int, shortest: int, n_documents: int, cache: Path
) -> TokenisedCorpus:
    source = {
        "kind": task,
        "n_symbols": n_symbols,
        "min_length": shortest,
        "max_length": 40,
        "n_documents": n_documents,
    }
    return build_corpus(
        Corpus.model_validate({"sources": [source], "valid": 0.02, "test": 0.0}), cache, False
    )


def architecture(preset: str, changes: dict[str, Any], vocabulary: Vocabulary) -> Architecture:
    return load(preset, changes={**SMALL, "n_vocab": vocabulary.size, **changes})


def learnt(model: Transformer, text: TokenisedCorpus, n_steps: int, rate: float) -> None:
    training = Training(
        n_steps=n_steps,
        n_sequences=N_SEQUENCES,
        length=LENGTH,
        warmup=100,
        optimizer=AdamW(rate=rate, beta2=0.98, decay=0.0),
        schedule=Trapezoid(down=0.5),
    )
    learner = Learner(model, training, text.vocabulary)
    for step in range(n_steps):
        reading = text.text_batch("train", 1, step, N_SEQUENCES, LENGTH)
        problem = pose_problem(
            Seq2Seq(), reading, text.vocabulary, 1, model.encoder is not None, False
        )
        learner.step(step, [problem])


def exact(model: Transformer, held: TokenisedCorpus) -> float:
    """The share of held-out strings answered right to the last symbol and ended there."""
    reading = held.text_batch("valid", 1, 0, N_ASKED, LENGTH)
    assert reading.target_starts_B is not None
    assert reading.real_BT is not None
    begins, ends = reading.target_starts_B, reading.real_BT.sum(1)
    longest = int((ends - begins).max())
    told = continuation(
        model,
        item_layout(
            MixtureComponent(objective=Seq2Seq()),
            model.spec,
            held.vocabulary,
            model.spec.max_length,
        ),
        reading.tokens_BT[:, : int(begins.max())],
        Sampling(longest),
        lengths_B=begins,
    ).tokens_BT
    right = 0
    for row in range(N_ASKED):
        answer = reading.tokens_BT[row, begins[row] : ends[row]]
        assert 20 <= len(answer) - 1 <= 40
        right += torch.equal(told[row, : len(answer)], answer)
    return right / N_ASKED


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_unseen_strings_are_copied_and_reversed_to_the_last_symbol(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, n_symbols, preset, changes, shortest, n_steps, rate = CASES[case]
    held = strings(task, n_symbols, 20, 15_000, tmp_path)
    model = build(architecture(preset, changes, held.vocabulary), seed=1)
    learnt(model, strings(task, n_symbols, shortest, 200_000, tmp_path), n_steps, rate)
    share = exact(model, held)
    with capsys.disabled():
        print(
            f"\n{case}: {share:.1%} of {N_ASKED} strings exact; by chance {n_symbols**-20.0:.0e} at"
            " most"
        )
    assert share > 0.99
