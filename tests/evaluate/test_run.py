"""A run measured: by its last checkpoint, as it was trained, once."""

import itertools
import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from paribus.corpus import TokenisedCorpus, prepare_corpus
from paribus.corpus.tokenizer import train_tokenizer
from paribus.errors import RecordError, SpecError
from paribus.evaluate import (
    answer_totals,
    evaluate,
    last_stage_of,
    likelihoods,
    select_items,
    unigram_nats,
)
from paribus.evaluate.likelihood import AskedModel
from paribus.model import restore
from paribus.record import read_evaluation, read_evaluations, write_evaluation
from paribus.spec import Corpus, DocumentHalves, HeldOutPairs, PseudoHalves
from paribus.spec.corpus import BPETokenizer
from paribus.spec.objectives import CausalLM, MaskedLM
from paribus.spec.run import load_run
from paribus.train.loop import train
from paribus.workspace import Workspace

CPU = torch.device("cpu")
HALVES = DocumentHalves(n_items=7)
COPY = {"kind": "copy", "n_documents": 300, "min_length": 8, "max_length": 11}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def trained(
    home: Path, name: str, preset: str, objective: str, form: str = "text"
) -> tuple[Path, TokenisedCorpus]:
    """A run of three steps, and the text it read."""
    small = {"preset": preset, "n_layers": 1, "d_model": 16, "attention": {"n_heads": 2}}
    table: dict[str, Any] = {
        "architecture": small | ({"encoder": {"n_layers": 1}} if preset == "t5" else {}),
        "corpus": {"sources": [COPY | {"form": form}]},
        "objective": objective,
        "training": {"n_steps": 3, "n_sequences": 4, "length": 24, "valid_batches": 1},
    }
    spec = load_run(table)
    built = prepare_corpus(spec.stages[0].corpus, home / "cache", show_progress=False)
    return train(spec, built, Workspace(home / "runs", device="cpu"), name=name).folder, built


@pytest.fixture(scope="module")
def causal(home: Path) -> tuple[Path, TokenisedCorpus]:
    return trained(home, "causal", "gpt2", "causal")


@pytest.fixture
def own(causal: tuple[Path, TokenisedCorpus], tmp_path: Path) -> tuple[Path, TokenisedCorpus]:
    """The same run in a folder that may be spoilt."""
    shutil.copytree(causal[0], tmp_path / "run", ignore=shutil.ignore_patterns("evaluations"))
    return tmp_path / "run", causal[1]


def test_a_run_answers_with_its_last_checkpoint_in_the_window_it_was_trained_on(
    causal: tuple[Path, TokenisedCorpus],
) -> None:
    folder, built = causal
    made = evaluate(folder, HALVES, built, device=CPU)
    model = restore(folder / "checkpoints" / "step-000000002")
    asked = select_items(built, HALVES)
    assert made.answers == likelihoods(
        AskedModel(model, CausalLM(), built.tokenizer, window=24), asked
    )
    head = made.head
    assert (head.label, head.step, head.window, head.n_items) == ("likelihood", 2, 24, 7)
    assert head.component == {"objective": {"kind": "causal"}, "weight": 1.0, "mode": None}
    assert head.unigram_nats == pytest.approx(sum(unigram_nats(built, asked, built.tokenizer)))
    assert head.yardstick == HALVES.model_dump()
    assert last_stage_of(folder).objective == CausalLM()


def test_what_was_measured_is_read_and_not_measured_again(
    own: tuple[Path, TokenisedCorpus],
) -> None:
    folder, built = own
    made = evaluate(folder, HALVES, built, device=CPU)
    (path,) = (folder / "evaluations").iterdir()
    louder = replace(made.answers[0], nats=made.answers[0].nats + 1)
    write_evaluation(path, replace(made, answers=(louder, *made.answers[1:])))
    again = evaluate(folder, HALVES, built, device=CPU)
    assert again != made
    assert again == read_evaluation(path)
    assert list(read_evaluations(folder)) == [again]
    evaluate(folder, DocumentHalves(n_items=5), built, device=CPU)
    assert len(list(read_evaluations(folder))) == 2


def test_what_was_measured_and_changed_since_is_not_read(own: tuple[Path, TokenisedCorpus]) -> None:
    folder, built = own
    evaluate(folder, HALVES, built, device=CPU)
    (path,) = (folder / "evaluations").iterdir()
    path.write_text(path.read_text().replace('"nats":', '"nats":1', 1))
    with pytest.raises(
        RecordError,
        match=r"is not what was written \(sha256 differs\); remove it, and the same command",
    ):
        evaluate(folder, HALVES, built, device=CPU)


def test_a_later_checkpoint_answers_anew_in_the_place_of_the_earlier(
    own: tuple[Path, TokenisedCorpus],
) -> None:
    folder, built = own
    path = folder / "evaluations"
    before = evaluate(folder, HALVES, built, device=CPU)
    (file,) = path.iterdir()
    write_evaluation(
        file, replace(before, head=replace(before.head, weights="another checkpoint's"))
    )
    assert evaluate(folder, HALVES, built, device=CPU) == before
    assert read_evaluation(file) == before
    assert len(list(path.iterdir())) == 1


def test_the_tokenizer_of_the_text_does_not_matter(
    causal: tuple[Path, TokenisedCorpus], home: Path
) -> None:
    folder, built = causal
    table = {"sources": [COPY | {"form": "text"}], "tokenizer": {"kind": "bpe", "n_vocab": 280}}
    pieced = prepare_corpus(Corpus.model_validate(table), home / "cache", show_progress=False)
    assert pieced.encode("abcabcabc") != built.encode("abcabcabc")
    assert evaluate(folder, HALVES, pieced, device=CPU) == evaluate(
        folder, HALVES, built, device=CPU
    )


def test_pairs_are_measured_of_a_run_on_pairs(home: Path) -> None:
    folder, built = trained(home, "pairs", "t5", "seq2seq", form="pairs")
    made = evaluate(folder, HeldOutPairs(n_items=5), built, device=CPU)
    assert made.head.component["objective"]["kind"] == "seq2seq"
    assert {answer.item for answer in made.answers} == {
        one.name for one in select_items(built, HeldOutPairs(n_items=5))
    }


def test_an_encoder_is_measured_by_pseudo_likelihood_and_called_so(home: Path) -> None:
    folder, built = trained(home, "masked", "bert", "masked")
    made = evaluate(folder, PseudoHalves(n_items=3), built, device=CPU)
    assert made.head.label == "pseudo-likelihood"
    model = restore(folder / "checkpoints" / "step-000000002")
    asked = select_items(built, PseudoHalves(n_items=3))
    assert made.head.unigram_nats == pytest.approx(sum(unigram_nats(built, asked, built.tokenizer)))
    assert made.answers == likelihoods(
        AskedModel(model, MaskedLM(), built.tokenizer, window=24), asked, "pseudo-likelihood"
    )
    with pytest.raises(
        SpecError, match="'masked', which gives no likelihood of a target after its context"
    ):
        evaluate(folder, DocumentHalves(n_items=3), built, device=CPU)


def test_a_run_without_a_checkpoint_is_refused(own: tuple[Path, TokenisedCorpus]) -> None:
    folder, built = own
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(RecordError, match="run has no complete checkpoint; train it further"):
        evaluate(folder, HALVES, built, device=CPU)


def test_a_spec_of_another_version_is_refused(own: tuple[Path, TokenisedCorpus]) -> None:
    folder, _ = own
    path = folder / "spec.json"
    path.write_text(path.read_text().replace('"causal"', '"acausal"'))
    with pytest.raises(
        RecordError,
        match=r"trained by a spec that this version cannot read: .*; use the version it",
    ):
        last_stage_of(folder)


def test_chance_is_how_often_tokens_come_in_the_training_text(
    causal: tuple[Path, TokenisedCorpus],
) -> None:
    _, built = causal
    (shard,) = (reader.shard for reader in built.readers["train"])
    asked = select_items(built, HALVES)
    found = unigram_nats(built, asked, built.tokenizer)
    text = shard.tokens.tobytes()
    for one, nats in zip(asked, found, strict=True):
        wanted = -sum(
            math.log((text.count(byte) + 1) / (len(text) + 256)) for byte in one.target.encode()
        )
        assert nats == pytest.approx(wanted)


def test_chance_is_counted_in_the_tokens_of_the_model_and_not_in_those_of_the_text(
    causal: tuple[Path, TokenisedCorpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is tokenised in bytes; a tokenizer of another kind has other counts."""
    _, built = causal
    monkeypatch.setattr("paribus.evaluate.unigram.RECODED_CHUNK_TOKENS", 10**6)
    shard = built.readers["train"][0].shard
    cuts = shard.offsets.tolist()
    documents = [
        shard.tokens[first:end].tobytes().decode() for first, end in itertools.pairwise(cuts)
    ]
    words = train_tokenizer(BPETokenizer(n_vocab=300), documents)
    counts = Counter(token for document in documents for token in words.encode(document))
    total = counts.total() + words.n_text
    asked = select_items(built, HALVES)
    found = unigram_nats(built, asked, words)
    for one, nats in zip(asked, found, strict=True):
        ids = words.encode(one.target)
        assert nats == pytest.approx(-sum(math.log((counts[own] + 1) / total) for own in ids))
    assert sum(found) != pytest.approx(sum(unigram_nats(built, asked, built.tokenizer)), rel=0.01)


def test_a_long_text_is_counted_in_stretches_of_it(
    causal: tuple[Path, TokenisedCorpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, built = causal
    whole = unigram_nats(built, select_items(built, HALVES), built.tokenizer)
    monkeypatch.setattr("paribus.evaluate.unigram.CHUNK_TOKENS", 23)
    assert len(built.readers["train"][0].shard.tokens) > 64 * 23
    assert unigram_nats(built, select_items(built, HALVES), built.tokenizer) == pytest.approx(
        whole, rel=0.2
    )


def test_sums_are_of_answers_and_their_bytes(causal: tuple[Path, TokenisedCorpus]) -> None:
    folder, built = causal
    made = evaluate(folder, HALVES, built, device=CPU)
    sums = answer_totals(made.answers)
    assert (sums.n_items, sums.n_documents) == (7, 7)
    assert sums.nats_sum == pytest.approx(sum(answer.nats for answer in made.answers))
    assert sums.n_bytes == sum(len(one.target.encode()) for one in select_items(built, HALVES))
    assert sums.bits_per_byte == pytest.approx(sums.nats_sum / math.log(2) / sums.n_bytes)
    assert sums.nats_per_item == pytest.approx(sums.nats_sum / 7)
