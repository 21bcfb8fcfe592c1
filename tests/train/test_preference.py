"""Direct preference optimisation: its loss and gradient are those of a computation by hand, and of
trl's trainer.
"""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from conversation_run import conversation_run, preference_run
from datasets import Dataset
from small_corpus import build_small_corpus, write_jsonl
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

from paribus.batch import Batch
from paribus.corpus import TokenisedCorpus
from paribus.interop import export
from paribus.masks import SequenceLayout
from paribus.model import Transformer, build
from paribus.objectives import Problem, pose_problem
from paribus.spec import resolve
from paribus.spec.flops import forward_flops, head_flops
from paribus.spec.objectives import Preference
from paribus.spec.training import Training
from paribus.train.learner import Learner
from paribus.train.model_loss import ModelWithLoss, ParentComparison
from paribus.train.problem_flops import problem_shape, row_flops

BETA = 0.3
ROWS = [
    {"prompt": "one", "chosen": "two", "rejected": "three hundred"},
    {"prompt": "a longer question", "chosen": "yes, it is", "rejected": "no"},
    {"prompt": "b", "system": "s", "chosen": "c", "rejected": "d"},
    {"prompt": "x" * 60, "chosen": "cut at its beginning", "rejected": "so is it"},
]
NAMES = ("causal", "prefix", "encoder-decoder")


@pytest.fixture
def corpus(tmp_path: Path) -> TokenisedCorpus:
    path = write_jsonl(tmp_path / "given.jsonl", ROWS)
    return build_small_corpus(tmp_path, {"kind": "preferences", "paths": str(path)})


def models(name: str, seed: int = 1) -> tuple[Transformer, Transformer]:
    """A model that learns, and the one that it is compared with."""
    architecture = conversation_run(name, {"architecture.max_length": 48}).architecture
    with torch.no_grad():
        built = [build(architecture, seed=own) for own in (seed, seed + 1)]
        for model in built:
            for parameter in model.parameters():
                parameter.mul_(3)  # far enough from uniform that mistakes show
    return built[0], built[1].requires_grad_(False)


def exact_models(name: str) -> tuple[Transformer, Transformer]:
    """In float64, so that only mistakes differ."""
    model, reference = models(name)
    return model.double(), reference.double()


def problem_of(corpus: TokenisedCorpus, model: Transformer, n_rows: int = 4) -> Problem:
    text = corpus.text_batch("train", 1, 0, n_rows, 48)
    return pose_problem(
        Preference(beta=BETA), text, corpus.vocabulary, 1, model.encoder is not None, False
    )


def log_likelihood(
    model: Transformer, corpus: TokenisedCorpus, prompt: list[int], response: list[int]
) -> Tensor:
    """log p of a response, token by token, from logits over a row without padding."""
    if model.encoder is None:
        is_prefix = "prefix" in str(model.architecture.mask)
        row = Batch.of(torch.tensor([[*prompt, *response]]), prefix=len(prompt) if is_prefix else 0)
        logits = model(row).logits_BTV[0, len(prompt) - 1 : -1]
    else:
        row = Batch.of(
            torch.tensor([[corpus.vocabulary.decoder_start, *response[:-1]]]),
            source=torch.tensor([prompt]),
        )
        logits = model(row).logits_BTV[0]
    return logits.log_softmax(-1)[torch.arange(len(response)), torch.tensor(response)].sum()


def rows_by_hand(corpus: TokenisedCorpus) -> list[tuple[list[int], list[int], list[int]]]:
    """Prompts, chosen and rejected responses, framed and cut by hand."""
    vocabulary, rows = corpus.vocabulary, []
    for row in ROWS:
        prompt = []
        for role, key in (("system", "system"), ("user", "prompt")):
            if key in row:
                prompt += [vocabulary.role_tokens[role], *row[key].encode()]
                prompt.append(vocabulary.end_of_turn)
        prompt.append(vocabulary.role_tokens["assistant"])
        answers = []
        for key in ("chosen", "rejected"):
            answers.append([*row[key].encode(), vocabulary.end_of_turn])
        room = 48 - max(map(len, answers))
        rows.append((prompt[-room:], *answers))
    return rows


def margins_by_hand(
    model: Transformer, reference: Transformer, corpus: TokenisedCorpus
) -> list[Tensor]:
    margins = []
    for prompt, chosen, rejected in rows_by_hand(corpus):
        ratios = []
        for response in (chosen, rejected):
            own = log_likelihood(model, corpus, prompt, response)
            ratios.append(own - log_likelihood(reference, corpus, prompt, response).detach())
        margins.append(BETA * (ratios[0] - ratios[1]))
    return margins


@pytest.mark.parametrize("name", NAMES)
def test_loss_and_gradient_are_those_of_a_computation_by_hand(corpus, name):
    model, reference = exact_models(name)
    problem = problem_of(corpus, model)
    loss = ModelWithLoss(
        model, Training(n_steps=1), corpus.vocabulary, None, ParentComparison(reference, BETA)
    )
    ours = loss(problem, torch.zeros((), dtype=torch.int64), problem.n_terms)
    ours.loss.backward()
    gradients = {}
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None
        gradients[parameter_name] = parameter.grad.clone()
    model.zero_grad()
    margins = torch.stack(margins_by_hand(model, reference, corpus))
    expected = -F.logsigmoid(margins).mean()
    expected.backward()
    assert ours.loss.item() == pytest.approx(expected.item(), abs=1e-9)
    for parameter_name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[parameter_name], parameter.grad, atol=1e-9, rtol=1e-6)
    nats, _, _, n_pairs, margin_sum, n_preferred, kl = ours.counts.tolist()
    assert nats == pytest.approx(4 * expected.item(), abs=1e-4)
    assert n_pairs == 4
    assert margin_sum == pytest.approx(margins.sum().item(), abs=1e-4)
    assert n_preferred == (margins > 0).sum()
    assert kl > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_is_its_own_reference_has_a_loss_of_one_bit(corpus, name):
    model, _ = models(name)
    comparison = ParentComparison(model, BETA)
    loss = ModelWithLoss(model, Training(n_steps=1), corpus.vocabulary, None, comparison)
    sums = loss.score_sums(problem_of(corpus, model))
    nats, n_pairs = sums["nats_sum"], sums["target_count"]
    assert n_pairs == 4
    assert nats == pytest.approx(4 * math.log(2), abs=1e-5)
    problem = problem_of(corpus, model)
    *_, margin_sum, _, kl = loss(problem, torch.zeros((), dtype=torch.int64), problem.n_terms)[
        1
    ].tolist()
    assert margin_sum == pytest.approx(0, abs=1e-5)
    assert kl == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_swapped_pairs_have_the_opposite_margin(corpus, name):
    model, reference = models(name)
    text = corpus.text_batch("train", 1, 0, 4, 48)
    comparison = ParentComparison(reference, BETA)
    loss = ModelWithLoss(model, Training(n_steps=1), corpus.vocabulary, None, comparison)
    sums = []
    for swapped in (False, True):
        objective = Preference(beta=BETA, swapped=swapped)
        has_encoder = model.encoder is not None
        problem = pose_problem(objective, text, corpus.vocabulary, 1, has_encoder, False)
        sums.append(loss.score_sums(problem))
    plain, swapped_sums = sums
    assert swapped_sums["margin_sum"] == pytest.approx(-plain["margin_sum"], abs=1e-4)
    assert swapped_sums["kl_sum"] == pytest.approx(plain["kl_sum"], abs=1e-4)
    assert plain["pair_count"] == swapped_sums["pair_count"] == plain["target_count"] == 4
    assert "swapped" not in Preference().model_dump()  # so that addresses stay


def test_chunks_of_pairs_give_the_gradient_of_all_at_once(corpus, monkeypatch):
    model, reference = models("causal")
    problem = problem_of(corpus, model)
    gradients = []
    for n_rows in (10_000, 96):
        monkeypatch.setattr("paribus.train.loss.CPU_CHUNK_ROWS", n_rows)
        loss = ModelWithLoss(
            model, Training(n_steps=1), corpus.vocabulary, None, ParentComparison(reference, BETA)
        )
        model.zero_grad()
        loss(problem, torch.zeros((), dtype=torch.int64), problem.n_terms).loss.backward()
        gradients.append(torch.cat([own.grad.flatten() for own in model.parameters()]))
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-4)


def test_micro_batches_divide_by_pairs(corpus):
    """One batch of four pairs is the same step as two of two."""
    norms = []
    for n_parts in (1, 2):
        model, reference = models("causal")
        training = Training(n_steps=1, n_sequences=4, length=48, n_micro_batches=n_parts)
        learner = Learner(
            model, training, corpus.vocabulary, comparison=ParentComparison(reference, BETA)
        )
        whole = corpus.text_batch("train", 1, 0, 4, 48)
        from paribus.corpus import slice_batch

        size = 4 // n_parts
        parts = []
        for first in range(0, 4, size):
            text = slice_batch(whole, first, first + size)
            parts.append(
                pose_problem(Preference(beta=BETA), text, corpus.vocabulary, 1, False, False)
            )
        sums = learner.step(0, parts)
        assert float(sums.preference_sums["pair_count"]) == 4
        norms.append(float(sums.gradient_norm))
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


def test_a_pair_without_room_for_its_prompt_does_not_count(corpus):
    model, reference = models("causal")
    text = corpus.text_batch("train", 1, 0, 4, 14)  # as long as the longest response with its end
    problem = pose_problem(Preference(), text, corpus.vocabulary, 1, False, False)
    assert float(problem.n_terms) == 2
    comparison = ParentComparison(reference, BETA)
    loss = ModelWithLoss(model, Training(n_steps=1), corpus.vocabulary, None, comparison)
    assert loss.score_sums(problem)["target_count"] == 2


def test_both_responses_follow_the_same_part_of_their_prompt(corpus):
    text = corpus.text_batch("train", 1, 0, 4, 48)
    assert text.rejected_BT is not None
    assert text.target_starts_B is not None
    for row, start in enumerate(text.target_starts_B.tolist()):
        assert text.tokens_BT[row, :start].equal(text.rejected_BT[row, :start])


@pytest.mark.parametrize("name", NAMES)
def test_the_price_is_both_responses_learnt_and_both_read_by_the_parent(corpus, name):
    model, _ = models(name)
    problem = problem_of(corpus, model)
    shape = problem_shape(problem)
    assert problem.inputs.layout.n_sequences == 8
    forward = forward_flops(
        resolve(model.architecture), SequenceLayout(shape.length), shape.source_length
    ) + head_flops(model.spec, shape.n_scored)
    assert row_flops(model.spec, Preference(), shape).dense == 4 * forward.dense


def test_trl_gives_the_same_loss_and_gradient(corpus, tmp_path):
    """`DPOTrainer._compute_loss` on the same batch, with the exported checkpoints."""
    model, reference = models("causal")
    rows = rows_by_hand(corpus)
    problem = problem_of(corpus, model)
    loss = ModelWithLoss(
        model, Training(n_steps=1), corpus.vocabulary, None, ParentComparison(reference, BETA)
    )
    ours = loss(problem, torch.zeros((), dtype=torch.int64), problem.n_terms).loss
    ours.backward()
    export(model, tmp_path / "policy", tokenizer=corpus.tokenizer)
    export(reference, tmp_path / "reference", tokenizer=corpus.tokenizer)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "policy")
    trainer = DPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(tmp_path / "policy"),
        ref_model=AutoModelForCausalLM.from_pretrained(tmp_path / "reference"),
        args=DPOConfig(
            output_dir=str(tmp_path / "out"),
            beta=BETA,
            use_cpu=True,
            report_to=[],
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=4,
        ),
        train_dataset=Dataset.from_list([{"prompt": "a", "chosen": "b", "rejected": "c"}]),
        processing_class=tokenizer,
    )
    length = 48
    ids = torch.full((8, length), corpus.vocabulary.pad)
    attended, completion = torch.zeros_like(ids), torch.zeros_like(ids)
    for number, (prompt, *responses) in enumerate(rows):
        for side, response in enumerate(responses):  # the chosen ones first
            end = len(prompt) + len(response)
            ids[4 * side + number, :end] = torch.tensor([*prompt, *response])
            attended[4 * side + number, :end] = 1
            completion[4 * side + number, len(prompt) : end] = 1
    inputs = {"input_ids": ids, "attention_mask": attended, "completion_mask": completion}
    theirs = trainer._compute_loss(trainer.model, inputs, return_outputs=False)
    theirs.backward()
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)
    gradient = trainer.model.transformer.wte.weight.grad
    own = model.embedding.weight.grad
    assert own is not None
    torch.testing.assert_close(own, gradient, atol=1e-5 * float(own.abs().max()), rtol=1e-3)


def test_the_objective_follows_a_run_of_conversations():
    assert preference_run().last.objective == Preference(beta=0.1)
