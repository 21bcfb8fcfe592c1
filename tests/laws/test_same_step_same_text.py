"""Same step, same text: batch k holds the same text in every arm, whatever is asked of it and
however it is divided.

From the problems that a step poses, the text is put together again: answers back into their places,
spans back into their gaps. It must be the corpus's batch k, bit for bit; an arm may leave out the
end of a row, and nothing else.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from paribus.batch import Vocabulary
from paribus.corpus import TokenisedCorpus, prepare_corpus
from paribus.objectives import Problem, draw_component, separates_documents
from paribus.spec import resolve
from paribus.spec.objectives import CausalLM, LastToken, MaskedLM, ReverseLM, TokenObjective
from paribus.spec.run import RunSpec, Stage, load_run
from paribus.train.loader import VALID_SEED, ProblemLoader

COPY = {"kind": "copy", "form": "text", "n_documents": 300}
SUMS = {"kind": "arithmetic", "form": "text", "n_documents": 300, "max_length": 9, "weight": 2.5}
CORPORA: dict[str, list[dict[str, Any]]] = {
    "one": [COPY],
    "mixed": [COPY, SUMS],
    "pairs": [COPY | {"form": "pairs", "max_length": 30}, SUMS | {"form": "pairs"}],
}
# preset, mask, objective
ARMS: list[tuple[str, str | None, str]] = [
    ("gpt2", None, "causal"),
    ("gpt2", "causal & same_document", "causal"),
    ("gpt2", "reverse", "reverse"),
    ("unilm", None, "prefix"),
    ("unilm", None, "continuation"),
    ("unilm", None, "spans"),
    ("unilm", "prefix & same_document", "ul2"),
    ("mixtral", "prefix", "prefix"),
    ("t5", None, "prefix"),
    ("t5", None, "spans"),
    ("bart", None, "continuation"),
    ("encdec-turns", None, "prefix"),
    ("encdec-shared", None, "ul2"),
    ("bert", None, "masked"),
    ("bert", None, "last_token"),
]
COMPLETE = {
    "causal",
    "reverse",
    "prefix",
    "continuation",
    "masked",
}  # objectives that need nothing left out
N_SEQUENCES, LENGTH = 8, 61
STEPS = (0, 1, 17, 1000)


def run_of(corpus: str, preset: str, mask: str | None, objective: str, **training: int) -> RunSpec:
    table = {
        "architecture": {"preset": preset} if mask is None else {"preset": preset, "mask": mask},
        "corpus": {"sources": CORPORA[corpus], "valid": 0.2},
        "objective": objective,
        "training": {
            "n_steps": 100,
            "n_sequences": N_SEQUENCES,
            "length": LENGTH,
            "valid_batches": 2,
            **training,
        },
    }
    return load_run(table)


def lessons(run: RunSpec, text: TokenisedCorpus) -> ProblemLoader:
    spec = resolve(run.architecture)
    return ProblemLoader(text, run.stages[0], spec.encoder is not None, separates_documents(spec))


@pytest.fixture(scope="module", params=["one", "mixed"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, TokenisedCorpus]:
    return request.param, built(request.param, tmp_path_factory.mktemp("cache"))


def built(corpus: str, cache: Path) -> TokenisedCorpus:
    return prepare_corpus(run_of(corpus, *ARMS[0]).stages[0].corpus, cache, show_progress=False)


def whole(text: TokenisedCorpus, data_seed: int, k: int) -> Tensor:
    """The corpus's own batch k."""
    return text.text_batch("train", data_seed, k, N_SEQUENCES, LENGTH).tokens_BT


def texts(problems: list[Problem], stage: Stage, words: Vocabulary, k: int, seed: int) -> Tensor:
    """What the parts of a batch read and ask for, as the text they were made of."""
    objective = draw_component(stage.objective, seed, k).objective
    rows = [problem.inputs.rows_B for problem in problems]
    assert torch.cat([row for row in rows if row is not None]).tolist() == list(range(N_SEQUENCES))
    return torch.cat([restored(problem, objective, words) for problem in problems])


def restored(problem: Problem, objective: TokenObjective, words: Vocabulary) -> Tensor:
    read, told = problem.inputs.tokens_BT, problem.targets_BM
    match objective:
        case CausalLM():
            assert torch.equal(read[:, 1:], told[:, :-1])
            return read
        case ReverseLM():
            assert torch.equal(read[:, :-1], told[:, 1:])
            return read
        case MaskedLM() | LastToken():
            return read.scatter(1, problem.scored_positions_BM, told)
        case _:
            asked = question(problem)
            signed = torch.isin(asked[:, 0], torch.tensor([*words.mode_tokens.values()]))
            assert signed.all() or not signed.any()
            return filled(asked[:, 1:] if signed.all() else asked, told, words)


def question(problem: Problem) -> Tensor:
    """What comes before the answer; a decoder of its own reads the answer one step behind."""
    read, told, source = problem.inputs.tokens_BT, problem.targets_BM, problem.inputs.source
    begins = problem.inputs.layout.prefix if source is None else 1
    assert isinstance(begins, int)
    assert torch.equal(read[:, begins:], told if source is None else told[:, :-1])
    return read[:, :begins] if source is None else source.tokens_BT


def filled(asked: Tensor, told: Tensor, words: Vocabulary) -> Tensor:
    """Each span of the answer in the gap its sentinel marks; an answer without sentinels
    follows the question.
    """
    first = words.sentinel(0)
    if not (told >= first).any():
        return torch.cat([asked, told], 1)
    assert (told[:, -1] == words.eos).all()
    back = []
    for gaps, answer in zip(asked.tolist(), told[:, :-1].tolist(), strict=True):
        starts = [place for place, token in enumerate(answer) if token >= first]
        spans = {
            answer[a]: answer[a + 1 : b]
            for a, b in zip(starts, [*starts[1:], len(answer)], strict=True)
        }
        back.append([token for gap in gaps for token in spans.get(gap, [gap])])
    return torch.tensor(back)


def name(arm: tuple[str, str | None, str]) -> str:
    return "-".join(filter(None, arm)).replace(" & ", "-")


@pytest.mark.parametrize("n_micro_batches", [1, 2, 4])
@pytest.mark.parametrize("arm", ARMS, ids=name)
def test_every_arm_reads_the_text_of_the_corpus_whatever_its_seed_and_its_parts(
    running: tuple[str, TokenisedCorpus], arm: tuple[str, str | None, str], n_micro_batches: int
) -> None:
    corpus, text = running
    for seed in (1, 2):
        run = run_of(corpus, *arm, n_micro_batches=n_micro_batches, seed=seed, data_seed=5)
        for k in STEPS:
            problems = lessons(run, text).problems_at(k)
            assert len(problems) == n_micro_batches
            read = texts(problems, run.stages[0], text.vocabulary, k, seed)
            assert torch.equal(read, whole(text, 5, k)[:, : read.shape[1]])
            assert read.shape[1] == LENGTH if arm[2] in COMPLETE else read.shape[1] > LENGTH / 5


@pytest.mark.parametrize("arm", ARMS, ids=name)
def test_another_data_seed_gives_another_text(
    running: tuple[str, TokenisedCorpus], arm: tuple[str, str | None, str]
) -> None:
    corpus, text = running
    run = run_of(corpus, *arm, data_seed=6)
    for k in STEPS:
        read = texts(lessons(run, text).problems_at(k), run.stages[0], text.vocabulary, k, seed=1)
        assert torch.equal(read, whole(text, 6, k)[:, : read.shape[1]])
        assert not torch.equal(read, whole(text, 5, k)[:, : read.shape[1]])


@pytest.mark.parametrize("arm", ARMS, ids=name)
def test_every_arm_is_examined_on_the_same_held_out_text(
    running: tuple[str, TokenisedCorpus], arm: tuple[str, str | None, str]
) -> None:
    corpus, text = running
    run = run_of(corpus, *arm, seed=3, data_seed=7)
    problems = list(lessons(run, text).validation_problems())
    assert len(problems) == 2
    for k, problem in enumerate(problems):
        read = texts([problem], run.stages[0], text.vocabulary, k, VALID_SEED)
        there = text.text_batch("valid", VALID_SEED, k, N_SEQUENCES, LENGTH).tokens_BT
        assert torch.equal(read, there[:, : read.shape[1]])


def test_a_run_that_begins_in_the_middle_reads_on_as_one_from_the_start(
    running: tuple[str, TokenisedCorpus],
) -> None:
    corpus, text = running
    steps = lessons(run_of(corpus, *ARMS[0], n_micro_batches=2, data_seed=5), text)
    for k, problems in enumerate(steps.prefetch(16, 19), 16):
        read = torch.cat([restored(problem, CausalLM(), text.vocabulary) for problem in problems])
        assert torch.equal(read, whole(text, 5, k))


@pytest.mark.parametrize("preset", ["gpt2", "unilm", "t5"])
@pytest.mark.parametrize("n_micro_batches", [1, 4])
def test_pairs_are_the_same_together_and_apart(
    preset: str, n_micro_batches: int, tmp_path: Path
) -> None:
    text = built("pairs", tmp_path)
    steps = lessons(
        run_of("pairs", preset, None, "seq2seq", n_micro_batches=n_micro_batches, data_seed=5), text
    )
    for k in STEPS:
        there = text.text_batch("train", 5, k, N_SEQUENCES, LENGTH)
        assert there.real_BT is not None
        read = [row for problem in steps.problems_at(k) for row in pairs(problem)]
        assert read == [
            row[real].tolist() for row, real in zip(there.tokens_BT, there.real_BT, strict=True)
        ]


def pairs(problem: Problem) -> list[list[int]]:
    """Each pair without its padding: its source, then what is asked for."""
    told = [
        row[scored > 0].tolist()
        for row, scored in zip(problem.targets_BM, problem.weights_BM, strict=True)
    ]
    source, layout = problem.inputs.source, problem.inputs.layout
    if source is None:
        assert isinstance(layout.prefix, Tensor)
        asked = [
            row[:n].tolist()
            for row, n in zip(problem.inputs.tokens_BT, layout.prefix.tolist(), strict=True)
        ]
    else:
        assert source.layout.real_BT is not None
        asked = [
            row[real].tolist()
            for row, real in zip(source.tokens_BT, source.layout.real_BT, strict=True)
        ]
    return [question + answer for question, answer in zip(asked, told, strict=True)]
