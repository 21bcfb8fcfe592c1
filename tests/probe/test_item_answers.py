"""Answers of a model to items: the nats that likelihoods have, in every layout."""

from pathlib import Path

import pytest
import torch
from byte_models import ITEMS
from probed_checkpoint import probed_checkpoint

from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate.likelihood import AskedModel, likelihoods
from paribus.probe.item_answers import ItemReader, token_answers

PAIRS = {"kind": "copy"}
TEXT = {"kind": "copy", "form": "text"}
ARMS = [
    ("gpt2", PAIRS, "seq2seq"),
    ("unilm", PAIRS, "seq2seq"),
    ("t5", PAIRS, "seq2seq"),
    ("gpt2", TEXT, "causal"),
    ("unilm", TEXT, "prefix"),
    ("bert", TEXT, "last_token"),
]
SHORT = tuple(item for item in ITEMS if len(item.context) + len(item.target) < 55)


@pytest.mark.parametrize(("preset", "source", "objective"), ARMS)
def test_nats_are_those_of_likelihoods(
    preset: str, source: dict[str, str], objective: str, tmp_path: Path
) -> None:
    checkpoint, model = probed_checkpoint(tmp_path, preset, source, objective)
    reader = ItemReader.of(checkpoint, model)
    items = [reader.lay(item.context, item.target) for item in SHORT]
    sums = torch.zeros(len(items), dtype=torch.float64)
    n_tokens = [0] * len(items)
    for answer in token_answers(reader, items, n_sequences=3):
        sums[answer.item] += answer.nats_M.double().sum()
        n_tokens[answer.item] += len(answer.nats_M)
        torch.testing.assert_close(
            answer.log_probabilities_MV.logsumexp(1), torch.zeros(len(answer.nats_M))
        )
    asked = AskedModel(model, checkpoint.objective(), checkpoint.tokenizer, window=61)
    expected = likelihoods(asked, SHORT)
    assert sums.tolist() == pytest.approx([one.nats for one in expected], abs=1e-4)
    assert n_tokens == [one.n_tokens for one in expected]


def test_a_context_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    reader = ItemReader.of(*probed_checkpoint(tmp_path, "gpt2", PAIRS))
    with pytest.raises(UnsupportedError, match="a context of 70 tokens does not fit the window of"):
        reader.lay("a" * 70, "b")


def test_a_model_that_fills_masks_gives_no_likelihood(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="gives no likelihood of a target after its context"):
        ItemReader.of(*probed_checkpoint(tmp_path, "bert", TEXT, "masked"))
