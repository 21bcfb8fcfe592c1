"""One step of learning: what moves, by how much, and what holds it back."""

from dataclasses import replace

import pytest
import torch
from copy_task import (
    VOCABULARY,
    copy_batch,
    copy_learner,
    pose_copy_task,
    slice_batch,
    tiny_copy_model,
)

from paribus.errors import SpecError
from paribus.objectives import score
from paribus.spec.objectives import CausalLM, MaskedLM, PrefixLM, Seq2Seq
from paribus.spec.training import AdamW, Training
from paribus.train.learner import Learner


def test_a_step_reports_the_score_of_the_batch_before_it_moves() -> None:
    model = tiny_copy_model("gpt2")
    problem = pose_copy_task(CausalLM(), model, copy_batch(0))
    before = score(model(problem.inputs).logits_BTV, problem, VOCABULARY)
    sums = copy_learner(model).step(0, [problem])
    torch.testing.assert_close(sums.nats_sum.float(), before.nats_sum)
    assert sums.target_count.item() == before.target_count.item() == 8 * 19
    assert sums.byte_count.item() == before.byte_count.item() == 8 * 19 * 2


def test_the_first_step_of_adam_moves_each_weight_by_the_rate_and_decays_matrices_alone() -> None:
    model = tiny_copy_model("gpt2")
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    training = Training(
        n_steps=10, n_sequences=8, length=20, optimizer=AdamW(rate=0.01, decay=0.5, clip=None)
    )
    one = Learner(model, training, VOCABULARY)
    one.step(0, [pose_copy_task(CausalLM(), model, copy_batch(0))])
    for name, parameter in model.named_parameters():
        decayed = (
            start[name] * (1 - 0.01 * 0.5)
            if name.endswith("weight") and parameter.dim() == 2
            else start[name]
        )
        if "positions" in name:
            decayed = start[name]
        if name.endswith("attention.key.bias"):
            continue  # a key bias moves no score, so its gradient is rounding alone
        moved = (parameter - decayed).abs()
        assert moved.max() <= 0.01 * 1.001, name
        assert moved.max() > 0.009, name


def test_the_gradient_is_clipped_as_a_whole() -> None:
    model, tight = tiny_copy_model("gpt2"), tiny_copy_model("gpt2")
    problem = pose_copy_task(CausalLM(), model, copy_batch(0))
    free = copy_learner(model).step(0, [problem]).gradient_norm
    training = Training(n_steps=50, n_sequences=8, length=20, optimizer=AdamW(clip=1e-3))
    assert Learner(tight, training, VOCABULARY).step(
        0, [problem]
    ).gradient_norm.item() == pytest.approx(free.item())
    first = next(iter(Learner(tight, training, VOCABULARY).optimizer.param_groups))["params"][0]
    assert first.grad is None  # gradients are given up after the step


def test_a_gradient_that_is_not_finite_moves_nothing_then_or_later() -> None:
    model = tiny_copy_model("deepseek-v3")
    one = copy_learner(model)
    one.step(0, [pose_copy_task(CausalLM(), model, copy_batch(0))])
    with torch.no_grad():
        kept = model.embedding.weight[3, 5].item()
        model.embedding.weight[3, 5] = float("inf")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    one.step(1, [pose_copy_task(CausalLM(), model, copy_batch(1))])
    with torch.no_grad():
        model.embedding.weight[3, 5] = kept
    one.step(2, [pose_copy_task(CausalLM(), model, copy_batch(2))])
    assert one.diverged.item() == 1
    assert one.diverged_step.item() == 1
    before["embedding.weight"][3, 5] = kept
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_the_first_weight_that_is_not_finite_is_named() -> None:
    model = tiny_copy_model("deepseek-v3")
    one = copy_learner(model)
    assert one.first_nonfinite() is None
    names = [name for name in model.state_dict() if name.endswith("selection_bias")] + [
        "embedding.weight"
    ]
    for name in names:  # the embedding stands before all biases
        model.state_dict()[name].view(-1)[3] = float("-inf")
        assert one.first_nonfinite() == (names[0] if name != "embedding.weight" else name)


def test_selection_biases_move_by_the_counts_of_the_whole_batch() -> None:
    whole, parts = tiny_copy_model("deepseek-v3"), tiny_copy_model("deepseek-v3")
    text = copy_batch(0)
    copy_learner(whole).step(0, [pose_copy_task(CausalLM(), whole, text)])
    halves = [
        pose_copy_task(CausalLM(), parts, slice_batch(text, first, first + 2))
        for first in (0, 2, 4, 6)
    ]
    copy_learner(parts, n_micro_batches=4).step(0, halves)
    biases = [name for name in whole.state_dict() if name.endswith("selection_bias")]
    assert biases
    for name in biases:
        assert torch.equal(whole.state_dict()[name], parts.state_dict()[name])
        sizes = whole.state_dict()[name].abs()
        assert ((sizes == 0) | ((sizes - 0.001).abs() < 1e-9)).all()
        assert sizes.sum() > 0


@pytest.mark.parametrize("preset", ["deepseek-v3", "bart"])
def test_a_step_that_asks_nothing_moves_nothing_and_the_next_one_does(preset: str) -> None:
    model = tiny_copy_model(preset)
    one = copy_learner(model)
    text = replace(
        copy_batch(0),
        real_BT=torch.ones(8, 20, dtype=torch.bool),
        target_starts_B=torch.full((8,), 10),
    )
    one.step(0, [pose_copy_task(Seq2Seq(), model, text)])
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sums = one.step(
        1,
        [
            pose_copy_task(
                Seq2Seq(), model, replace(text, target_starts_B=torch.zeros(8, dtype=torch.int64))
            )
        ],
    )
    assert (sums.nats_sum.item(), sums.target_count.item(), one.diverged.item()) == (0, 0, 0)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert one.step(2, [pose_copy_task(Seq2Seq(), model, text)]).target_count.item() == 80
    assert not torch.equal(model.embedding.weight, before["embedding.weight"])
    assert {int(state["step"]) for state in one.optimizer.state.values()} == {2}


@pytest.mark.parametrize(
    ("preset", "objective"), [("gpt2", CausalLM()), ("bert", MaskedLM()), ("bart", PrefixLM())]
)
def test_the_lesson_is_learnt(preset: str, objective: CausalLM | MaskedLM | PrefixLM) -> None:
    model = tiny_copy_model(preset, {"init": {"kind": "normal", "std": 0.02}})
    one = Learner(
        model,
        Training(n_steps=60, n_sequences=8, length=20, optimizer=AdamW(rate=5e-3)),
        VOCABULARY,
    )
    nats = []
    for k in range(60):
        sums = one.step(k, [pose_copy_task(objective, model, copy_batch(k))])
        nats.append((sums.nats_sum / sums.target_count).item())
    assert nats[0] > 4.5
    assert nats[-1] < 2.6


def test_parts_must_divide_the_batch() -> None:
    with pytest.raises(
        SpecError, match="n_micro_batches is 3, which does not divide n_sequences 8"
    ):
        copy_learner(tiny_copy_model("gpt2"), n_micro_batches=3)


def test_a_balance_over_the_batch_refuses_parts() -> None:
    with pytest.raises(
        SpecError,
        match="n_micro_batches is 2 with a balance loss over the batch, which micro-batches cannot",
    ):
        copy_learner(tiny_copy_model("switch"), n_micro_batches=2)
