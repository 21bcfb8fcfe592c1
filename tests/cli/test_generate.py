"""`paribus generate` and `paribus fill-mask`: every option is obeyed or refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import paribus as pb
from paribus.corpus.tokenizer import byte_tokenizer, train_tokenizer
from paribus.errors import SpecError
from paribus.generate.masked_text import encode_masked_text
from paribus.spec.corpus import BPETokenizer
from paribus.workspace import Workspace

SPEC: dict[str, Any] = {
    "architecture": {"preset": "gpt2", "n_layers": 1, "d_model": 16, "attention": {"n_heads": 2}},
    "corpus": {"sources": [{"kind": "copy", "form": "text", "n_documents": 300}]},
    "training": {"n_steps": 6, "n_sequences": 2, "length": 32, "valid_batches": 1},
}
FILLER = {**SPEC["architecture"], "preset": "bert"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: `first`, which goes on, and `filler`, which fills masks."""
    folder = tmp_path_factory.mktemp("trained")
    workspace = Workspace(folder / "runs", cache=folder / "cache", device="cpu")
    pb.train_run(SPEC, name="first", workspace=workspace)
    pb.train_run(
        SPEC | {"architecture": FILLER, "objective": "masked"}, name="filler", workspace=workspace
    )
    return folder / "runs"


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "runs")
    return tmp_path / "runs"


def test_every_option_is_a_field_of_sampling(ask, runs: Path) -> None:
    sampling = pb.Sampling(
        n_tokens=9,
        temperature=1.1,
        seed=3,
        top_k=20,
        top_p=0.9,
        min_p=0.01,
        repetition_penalty=1.2,
        stop=("zzz", "="),
        n_samples=2,
        n_logprobs=1,
    )
    words = "--tokens 9 --temperature 1.1 --seed 3 --top-k 20 --top-p 0.9 --min-p 0.01"
    words += " --repetition-penalty 1.2 --stop zzz --stop = --samples 2 --logprobs 1 --json"
    told = ask("generate", "first", "abc", *words.split())
    assert told.status == 0, told.err
    answers = pb.generate_texts("first", "abc", sampling, runs=runs)
    printed = json.loads(told.out)
    assert [one["text"] for one in printed] == [answer.text for answer in answers]
    assert [tuple(one["tokens"]) for one in printed] == [answer.tokens for answer in answers]
    assert [tuple(one["logprobs"]) for one in printed] == [answer.logprobs for answer in answers]
    first = printed[0]["likeliest"][0][0]
    assert first.keys() == {"token", "text", "logprob"}


def test_several_samples_are_numbered_and_log_probabilities_stand_beside_their_tokens(
    ask, runs: Path
) -> None:
    told = ask("generate", "first", "abc", "--tokens", "3", "--samples", "2", "--logprobs", "2")
    assert told.status == 0, told.err
    lines = told.out.splitlines()
    assert "sample 1 of 2" in lines
    assert "sample 2 of 2" in lines
    assert any(line.split() == ["token", "log-probability", "most", "likely"] for line in lines)
    plain = ask("generate", "first", "abc", "--tokens", "3", "--logprobs", "0")
    assert "most likely" not in plain.out
    assert "−" in plain.out


def test_beams_are_searched(ask, runs: Path) -> None:
    words = "--tokens 6 --beams 3 --samples 3 --length-penalty 0 --json"
    told = ask("generate", "first", "abc", *words.split())
    assert told.status == 0, told.err
    scores = [one["beam_score"] for one in json.loads(told.out)]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 3


def test_one_text_is_one_answer(runs: Path) -> None:
    sampling = pb.Sampling(n_tokens=5, temperature=1.0)
    (answer,) = pb.generate_texts("first", "abc", sampling, runs=runs)
    assert pb.generate_text("first", "abc", sampling, runs=runs) == answer.text
    with pytest.raises(
        SpecError, match="n_samples is 2, but generate_text gives one text; use generate_texts"
    ):
        pb.generate_text("first", "abc", pb.Sampling(n_samples=2), runs=runs)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--top-k", "-1"), "Invalid value for '--top-k'"),
        (("--top-p", "1.5"), "Invalid value for '--top-p'"),
        (("--top-p", "0"), "top_p is 0.0; use a number above 0 and at most 1"),
        (("--min-p", "nan"), "Invalid value for '--min-p'"),
        (("--repetition-penalty", "0"), "repetition_penalty is 0.0; use a number above 0"),
        (("--stop", ""), "stop.0 is empty, and would stop every answer at once"),
        (("--stop", "x") * 1000, "stop has 1,000 strings; use at most 64"),
        (("--samples", "0"), "Invalid value for '--samples'"),
        (("--order", "right"), "order is 'right'; use 'left' or 'confident'"),
        (("--order", "confident"), "order is 'confident', but the tokens are said one after"),
        (("--beams", "2", "--temperature", "1"), "temperature is 1.0 with n_beams 2"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(
    ask, runs: Path, words: tuple[str, ...], complaint: str
) -> None:
    told = ask("generate", "first", "abc", *words)
    assert told.status == 2
    assert complaint in told.err


def test_a_model_of_masks_fills_those_after_the_text(ask, runs: Path) -> None:
    for order in ("left", "confident"):
        told = ask("generate", "filler", "abc", "--tokens", "5", "--order", order)
        assert told.status == 0, told.err
        assert told.err.endswith(
            "note: it fills masks after TEXT, and was not trained to go on from a text\n"
        )
        sampling = pb.Sampling(n_tokens=5, order=order)  # pyright: ignore[reportArgumentType]
        assert told.out == pb.generate_text("filler", "abc", sampling, runs=runs) + "\n"


def test_masks_are_filled_with_the_likeliest_tokens(ask, runs: Path) -> None:
    told = ask("fill-mask", "filler", "ab[MASK]d<mask>", "--candidates", "3")
    assert told.status == 0, told.err
    lines = told.out.splitlines()
    assert lines[0].split() == ["mask", "token", "probability"]
    assert [line.split()[0] for line in lines[1:]] == ["1"] * 3 + ["2"] * 3
    found = pb.fill_mask("filler", "ab[MASK]d‹mask›", 3, runs=runs)
    assert [len(candidates) for candidates in found] == [3, 3]
    for candidates in found:
        chances = [one.probability for one in candidates]
        assert chances == sorted(chances, reverse=True)
        assert 0 < sum(chances) < 1
    printed = json.loads(
        ask("fill-mask", "filler", "ab[MASK]d[MASK]", "--candidates", "3", "--json").out
    )
    assert printed == [[vars(one) for one in candidates] for candidates in found]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("filler", "abc"), "TEXT has no mask; write [MASK] where a token is to be filled in"),
        (("filler", "[MASK]" * 999), "TEXT has 999 tokens, and 1 stand around it, but the length"),
        (("first", "a[MASK]"), "objective.kind is 'causal', which was not trained to fill masks"),
        (("filler", "[MASK]", "--candidates", "0"), "Invalid value for '--candidates'"),
    ],
)
def test_what_cannot_be_filled_is_refused(
    ask, runs: Path, words: tuple[str, ...], complaint: str
) -> None:
    told = ask("fill-mask", *words)
    assert told.status == 2
    assert complaint in told.err


def test_no_candidates_are_refused() -> None:
    with pytest.raises(SpecError, match="n_candidates is 0; use a whole number from 1 up"):
        pb.fill_mask("nobody", "[MASK]", 0)


def test_a_space_before_a_mask_belongs_to_it_where_words_are_joined_to_spaces() -> None:
    plain = byte_tokenizer()
    assert encode_masked_text("a [MASK] b", plain, 999) == [*b"a ", 999, *b" b"]
    joined = train_tokenizer(BPETokenizer(n_vocab=262), ["the word the word the word"])
    tokens = encode_masked_text("the [MASK] word", joined, 999)
    assert tokens == [*joined.encode("the"), 999, *joined.encode(" word")]
