"""Beam search against every answer there is, and against transformers."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from byte_models import VOCABULARY, byte_model

import paribus as pb
from paribus.errors import SpecError
from paribus.generate import Sampling, generate_answers
from paribus.generate.beams import Beam, BeamSearch, context_beams, search_beams
from paribus.interop import load_checkpoint
from paribus.objectives.framing import ItemLayout, generation_layout, lay_context
from paribus.spec.objectives import CausalLM

hf_models = pytest.importorskip("hf_models")

END = 0


def table_logprobs(n_vocab: int, seed: int):
    """Log-probabilities that depend on all tokens before."""

    def logprobs(tokens_KT: torch.Tensor, _: torch.Tensor | None) -> torch.Tensor:
        rows = []
        for tokens in tokens_KT.tolist():
            number = seed
            for token in tokens:
                number = number * 31 + token + 1
            generator = torch.Generator().manual_seed(number % 2**31)
            rows.append(2 * torch.randn(n_vocab, generator=generator, dtype=torch.float64))
        return torch.stack(rows).log_softmax(-1)

    return logprobs


def every_answer(n_vocab: int, n_tokens: int, logprobs, search: BeamSearch) -> list[Beam]:
    """All answers that end, or have as many tokens as they may, the best first."""
    beams = []
    for length in range(1, n_tokens + 1):
        for tokens in product(range(n_vocab), repeat=length):
            is_whole = tokens[-1] == END or length == n_tokens
            if END in tokens[:-1] or not is_whole:
                continue
            total = 0.0
            for place, token in enumerate(tokens):
                before = torch.tensor([tokens[:place]], dtype=torch.int64).view(1, -1)
                total += logprobs(before, None)[0, token].item()
            beams.append(Beam(tokens, search.score(total, length)))
    return sorted(beams, key=lambda beam: -beam.score)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
def test_so_many_beams_that_none_is_left_out_find_the_best_answers(length_penalty: float) -> None:
    """Those of full length alone are compared where longer ones are favoured."""
    n_vocab, n_tokens = 3, 3
    for seed in range(5):
        logprobs = table_logprobs(n_vocab, seed)
        search = BeamSearch(19, n_tokens, (END,), length_penalty)
        found = search_beams(logprobs, search)
        wanted = every_answer(n_vocab, n_tokens, logprobs, search)
        assert [beam.tokens for beam in found] == [beam.tokens for beam in wanted[:19]]
        assert [beam.score for beam in found] == pytest.approx([one.score for one in wanted[:19]])


def test_one_beam_that_may_not_end_is_greedy() -> None:
    logprobs = table_logprobs(7, 1)
    (beam,) = search_beams(logprobs, BeamSearch(1, 5, ()))
    tokens: list[int] = []
    for _ in range(5):
        tokens.append(int(logprobs(torch.tensor([tokens], dtype=torch.int64), None).argmax()))
    assert list(beam.tokens) == tokens


def test_parents_say_which_row_each_row_continues() -> None:
    logprobs, before = table_logprobs(7, 2), [torch.zeros(1, 0, dtype=torch.int64)]

    def watched(tokens_KT: torch.Tensor, parents_K: torch.Tensor | None) -> torch.Tensor:
        if parents_K is not None:
            assert torch.equal(tokens_KT[:, :-1], before[-1][parents_K])
        before.append(tokens_KT)
        return logprobs(tokens_KT, parents_K)

    search_beams(watched, BeamSearch(3, 5, (END,)))
    assert len(before) > 3


def their_beams(
    model: Any, layout: ItemLayout, inputs: tuple[int, ...], sampling: Sampling
) -> list[Beam]:
    """What transformers finds, with what ends each."""
    inputs_1T = torch.tensor([inputs])
    n_before, decoder = len(inputs), {}
    if layout.framing == "apart":
        opening = [layout.vocabulary.decoder_start, *layout.opening]
        n_before, decoder = len(opening), {"decoder_input_ids": torch.tensor([opening])}
    found = model.generate(
        input_ids=inputs_1T,
        attention_mask=torch.ones_like(inputs_1T),
        **decoder,
        max_new_tokens=sampling.n_tokens,
        do_sample=False,
        num_beams=sampling.n_beams,
        num_return_sequences=sampling.n_samples,
        length_penalty=sampling.length_penalty,
        repetition_penalty=sampling.repetition_penalty,
        early_stopping=False,
        eos_token_id=list(layout.end_tokens),
        forced_eos_token_id=None,
        pad_token_id=layout.vocabulary.pad,
        return_dict_in_generate=True,
        output_scores=True,
    )
    beams = []
    for row, score in zip(found.sequences.tolist(), found.sequences_scores.tolist(), strict=True):
        tokens: list[int] = []
        for token in row[n_before:]:
            tokens.append(token)
            if token in layout.end_tokens:
                break
        beams.append(Beam(tuple(tokens), score))
    return beams


@pytest.mark.parametrize("family", ["gpt2", "t5", "bart"])
def test_beams_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    """Also where an answer ends early, at a token that the model often says."""
    theirs = hf_models.write_family(family, tmp_path / "theirs")
    pb.import_(tmp_path / "theirs", out=tmp_path / "ours")
    checkpoint = load_checkpoint(tmp_path / "ours")
    model, spec = checkpoint.restore().double(), checkpoint.spec
    own = checkpoint.vocabulary.own_special_tokens
    assert own is not None
    layout = generation_layout(checkpoint.objective(), spec, checkpoint.vocabulary, spec.max_length)
    lengths = set()
    for text in ("the other", "abc abd that", "words: a"):
        context = checkpoint.tokenizer.encode(text)
        laid = lay_context(layout, context, 12)
        (free,) = context_beams(model, layout, laid.inputs, Sampling(12, n_beams=2))
        for end, n_beams, penalty, repetition in (
            (own["end"], 2, 1.0, 1.0),
            (free.tokens[2], 2, 1.0, 1.0),
            (free.tokens[5], 5, 0.3, 1.0),
            (free.tokens[3], 3, -1.0, 1.0),
            (free.tokens[4], 4, 2.0, 1.3),
        ):
            vocabulary = replace(
                checkpoint.vocabulary,
                own_special_tokens={**own, "begin": own.get("begin", own["end"]), "end": end},
            )
            ended_layout = replace(layout, vocabulary=vocabulary)
            sampling = Sampling(
                12,
                n_beams=n_beams,
                n_samples=n_beams,
                length_penalty=penalty,
                repetition_penalty=repetition,
            )
            ours = context_beams(model, ended_layout, laid.inputs, sampling)
            wanted = their_beams(theirs, ended_layout, laid.inputs, sampling)
            assert [beam.tokens for beam in ours] == [beam.tokens for beam in wanted]
            scores = [beam.score for beam in wanted]
            assert [beam.score for beam in ours] == pytest.approx(scores, abs=1e-4)
            lengths |= {len(beam.tokens) for beam in ours}
    assert len(lengths) > 2


def test_answers_of_beams_are_the_best_first() -> None:
    model = byte_model("gpt2")
    layout = generation_layout(CausalLM(), model.spec, VOCABULARY, 83)
    contexts = [list(b"the other day"), list(b"a")]
    sampling = Sampling(6, n_beams=4, n_samples=3)
    answers = generate_answers(model, layout, contexts, sampling)
    assert len(answers) == 6
    scores = [answer.beam_score for answer in answers]
    assert all(score is not None for score in scores)
    assert scores[:3] == sorted(scores[:3], reverse=True)  # pyright: ignore[reportArgumentType]
    (best,) = generate_answers(model, layout, contexts[1:], Sampling(6, n_beams=4))
    assert best == answers[3]


def test_beams_end_where_the_window_does() -> None:
    model = byte_model("gpt2")
    layout = generation_layout(CausalLM(), model.spec, VOCABULARY, 11)
    (answer,) = generate_answers(model, layout, [list(b"abcdefgh")], Sampling(50, n_beams=2))
    (greedy,) = generate_answers(model, layout, [list(b"abcdefgh")], Sampling(50))
    assert len(answer.tokens) <= len(greedy.tokens) == 6


def test_what_beams_cannot_do_is_refused() -> None:
    model = byte_model("gpt2")
    layout = generation_layout(CausalLM(), model.spec, VOCABULARY, 83)
    with pytest.raises(SpecError, match="n_beams is 2 with is_done; use one or the other"):
        generate_answers(model, layout, [[97]], Sampling(2, n_beams=2), is_done=bool)
    with pytest.raises(
        SpecError,
        match="n_samples is 300, but there are only 257 answers of 1 tokens; use at most 257, or",
    ):
        generate_answers(model, layout, [[97]], Sampling(1, n_beams=300, n_samples=300))
