"""Adafactor and Muon: their steps written out, what is held back, and what a checkpoint keeps."""

from pathlib import Path

import pytest
import torch
from copy_task import VOCABULARY, copy_batch, pose_copy_task, tiny_copy_model
from torch import Tensor

from paribus.model import Transformer
from paribus.objectives import Problem
from paribus.spec.objectives import CausalLM
from paribus.spec.training import Adafactor, AdamW, Muon, Optimizer, Training
from paribus.train.learner import Learner
from paribus.train.optimizers import launch_notes
from paribus.train.training_state import (
    collect_training_tensors,
    load_training_state,
    save_training_state,
)

RATE, WARMUP = 0.03, 4
ADAFACTOR = Adafactor(
    rate=RATE, beta2_power=0.6, min_root=1e-9, min_scale=0.05, update_clip=1.5, decay=0.5, clip=None
)
MUON = Muon(rate=RATE, momentum=0.8, beta1=0.6, beta2=0.85, eps=0.02, decay=0.5, clip=None)
OPTIMIZERS: dict[str, Optimizer] = {"adamw": AdamW(), "adafactor": Adafactor(), "muon": Muon()}


def moved_model(preset: str = "gpt2") -> Transformer:
    """A model in double precision, with no weight left at the 0 or 1 it starts from."""
    model = tiny_copy_model(preset).double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(noise * 0.3)
    return model


def make_learner(model: Transformer, optimizer: Optimizer, warmup: int = WARMUP) -> Learner:
    training = Training(
        n_steps=20, n_sequences=8, length=20, optimizer=optimizer, warmup=warmup, seed=1
    )
    return Learner(model, training, VOCABULARY)


def copy_problem(model: Transformer, k: int) -> Problem:
    return pose_copy_task(CausalLM(), model, copy_batch(k))


def gradients(model: Transformer, problem: Problem) -> dict[str, Tensor]:
    logits = model(problem.inputs).logits_BTV
    at = problem.scored_positions_BM[..., None].expand(-1, -1, logits.shape[-1])
    chances = logits.gather(1, at).log_softmax(-1)
    nats = -(chances.gather(-1, problem.targets_BM[..., None])[..., 0] * problem.weights_BM).sum()
    names, weights = zip(*model.named_parameters(), strict=True)
    slopes = torch.autograd.grad(nats / problem.weights_BM.sum(), weights)
    return dict(zip(names, slopes, strict=True))


def rms(tensor: Tensor) -> float:
    return tensor.square().mean().sqrt().item()


def weights_of(model: Transformer) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def decays(name: str, weight: Tensor) -> bool:
    return weight.dim() == 2 and "positions" not in name


def test_three_steps_are_those_of_adafactor() -> None:
    """Second moments by the means of rows and columns, as its paper writes them; a step is a share
    of a tensor's own size, and its update is clipped.
    """
    ours, by_hand = moved_model(), moved_model()
    one = make_learner(ours, ADAFACTOR)
    squares = {name: torch.zeros_like(weight) for name, weight in by_hand.named_parameters()}
    for t in range(1, 4):
        problem = copy_problem(ours, t)
        slopes = gradients(by_hand, problem)
        one.step(t - 1, [problem])
        rate, share = RATE * t / WARMUP, t**-0.6
        with torch.no_grad():
            for name, weight in by_hand.named_parameters():
                squares[name] = (1 - share) * squares[name] + share * slopes[name] ** 2
                second = squares[name]
                if weight.dim() == 2:  # the mean of a mean of squares is that of the factors
                    rows, columns = second.mean(1, keepdim=True), second.mean(0, keepdim=True)
                    second = rows * columns / rows.mean()
                update = slopes[name] / second.clamp(min=1e-18).sqrt()
                update = update / max(1.0, rms(update) / 1.5)
                size = max(0.05, rms(weight))
                if decays(name, weight):
                    weight -= rate * 0.5 * weight
                weight -= min(rate, t**-0.5) * size * update
    for (name, weight), expected in zip(ours.named_parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-5, atol=1e-8, msg=name)


@pytest.mark.parametrize("preset", ["gpt2", "mixtral"])
def test_muon_steps_of_block_matrices_are_orthogonal_and_of_the_size_of_adamw(preset: str) -> None:
    """The first momentum has the direction of the gradient: of its singular vectors, every one
    moves about as far. Each expert is a matrix.
    """
    model = moved_model(preset)
    before, problem = weights_of(model), copy_problem(model, 0)
    slopes = gradients(model, problem)
    make_learner(model, MUON, warmup=0).step(0, [problem])
    n_seen = 0
    for name, weight in model.named_parameters():
        if ".layers." not in name or weight.dim() < 2:
            continue
        after = weight.detach() - (1 - RATE * 0.5) * before[name]
        shape = (-1, *after.shape[-2:])
        pairs = zip(after.reshape(shape), slopes[name].reshape(shape), strict=True)
        for moved, slope in pairs:
            if rms(slope) < 1e-7:  # of an expert that no token chose
                continue
            left, spectrum, right = torch.linalg.svd(slope, full_matrices=False)
            n_clear = int((spectrum > 0.05 * spectrum[0]).sum())
            unit = -0.2 * RATE * max(moved.shape) ** 0.5
            along = torch.diagonal(left.T @ moved @ right.T)[:n_clear] / unit
            assert along.min() > 0.5, name
            assert along.max() < 1.4, name
            n_seen += 1
    assert n_seen >= 4


def test_what_muon_leaves_is_moved_by_adamw() -> None:
    model = moved_model()
    before, problem = weights_of(model), copy_problem(model, 0)
    slopes = gradients(model, problem)
    make_learner(model, MUON, warmup=0).step(0, [problem])
    n_others = 0
    for name, weight in model.named_parameters():
        if ".layers." in name and weight.dim() == 2:
            continue
        kept = 1 - RATE * 0.5 if decays(name, weight) else 1.0
        expected = kept * before[name] - RATE * slopes[name] / (slopes[name].abs() + 0.02)
        torch.testing.assert_close(weight.detach(), expected, rtol=1e-6, atol=1e-9, msg=name)
        n_others += 1
    assert n_others > 3


@pytest.mark.parametrize("kind", ["adafactor", "muon"])
def test_a_gradient_is_cut_to_the_greatest_norm(kind: str) -> None:
    """A fifth of the norm halves nothing of a first step, whose direction alone counts: AdamW's
    share of it does, through its eps, and Adafactor's second moments do.
    """
    optimizer = {"adafactor": ADAFACTOR, "muon": MUON}[kind]
    problem = copy_problem(moved_model(), 0)
    norms = gradients(moved_model(), problem)
    norm = sum(slope.square().sum() for slope in norms.values()) ** 0.5
    moments = {}
    for clip in (None, float(norm) / 5):
        one = make_learner(moved_model(), optimizer.model_copy(update={"clip": clip}), warmup=0)
        told = one.step(0, [problem]).gradient_norm
        torch.testing.assert_close(told.double(), torch.as_tensor(norm).double())
        moments[clip] = one.optimizer.state_tensors()
    whole, cut = moments.values()
    power = {"row_var": 25, "col_var": 25, "variance": 25, "exp_avg_sq": 25}
    for name, tensor in whole.items():
        key = name.split(".")[0]
        if key != "step":
            torch.testing.assert_close(
                cut[name] * power.get(key, 5), tensor, rtol=1e-5, atol=1e-12, msg=name
            )


@pytest.mark.parametrize("kind", ["adafactor", "muon"])
def test_nothing_moves_from_a_gradient_that_is_not_finite_on(kind: str) -> None:
    model = tiny_copy_model("gpt2")
    one = make_learner(model, OPTIMIZERS[kind])
    one.step(0, [copy_problem(model, 0)])
    with torch.no_grad():
        model.embedding.weight[0, 0] = float("nan")
    before = weights_of(model)
    for step in (1, 2):
        one.step(step, [copy_problem(model, step)])
    assert one.diverged_step.item() == 1
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.detach(), before[name], equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("preset", ["gpt2", "mixtral"])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_checkpoint_holds_all_that_the_next_steps_depend_on(
    kind: str, preset: str, tmp_path: Path
) -> None:
    whole, torn = tiny_copy_model(preset), tiny_copy_model(preset)
    one, first = make_learner(whole, OPTIMIZERS[kind]), make_learner(torn, OPTIMIZERS[kind])
    for step in range(3):
        first.step(step, [copy_problem(torn, step)])
    tensors = collect_training_tensors(first)
    save_training_state(tmp_path, first, tensors, {}, {"sums": torch.ones(2)})
    resumed = tiny_copy_model(preset, seed=9)
    second = make_learner(resumed, OPTIMIZERS[kind])
    assert load_training_state(tmp_path, second).keys() == {"sums"}
    for step in range(6):
        one.step(step, [copy_problem(whole, step)])
        if step >= 3:
            second.step(step, [copy_problem(resumed, step)])
    kept = one.optimizer.state_tensors()
    assert kept.keys() == second.optimizer.state_tensors().keys()
    for name, tensor in second.optimizer.state_tensors().items():
        assert tensor.equal(kept[name]), name
    for name, weight in resumed.named_parameters():
        assert weight.equal(whole.get_parameter(name)), name


@pytest.mark.parametrize(("kind", "rate"), [("adafactor", 0.05), ("muon", 5e-3)])
@pytest.mark.parametrize("preset", ["gpt2", "mixtral"])
def test_a_task_is_learnt(preset: str, kind: str, rate: float) -> None:
    model = tiny_copy_model(preset)
    optimizer = OPTIMIZERS[kind].model_copy(update={"rate": rate})
    training = Training(n_steps=60, n_sequences=8, length=20, optimizer=optimizer, warmup=5)
    one, problem = Learner(model, training, VOCABULARY), copy_problem(model, 0)
    nats = [one.step(step, [problem]).nats_sum.item() for step in range(60)]
    assert nats[-1] < nats[0] / 2


def test_only_adamw_is_captured_in_a_graph() -> None:
    can = {
        kind: make_learner(tiny_copy_model("gpt2"), optimizer).optimizer.can_be_captured
        for kind, optimizer in OPTIMIZERS.items()
    }
    assert can == {"adamw": True, "adafactor": False, "muon": False}
    for kind, optimizer in OPTIMIZERS.items():
        assert not list(launch_notes(optimizer, torch.device("cpu")))
        said = "".join(launch_notes(optimizer, torch.device("cuda")))
        assert can[kind] or f"training.optimizer is {kind}, whose steps are launched" in said
        assert bool(said) is not can[kind]
    (said,) = launch_notes(OPTIMIZERS["adamw"], torch.device("cuda"), is_sharded=True)
    assert "the weights are sharded, so steps are launched kernel by kernel" in said
    assert not list(launch_notes(OPTIMIZERS["adamw"], torch.device("cpu"), is_sharded=True))


def test_under_mup_rates_follow_the_inputs_and_what_decays_does_not() -> None:
    """A tiny model of width 12 and feed-forward width 48 has larger rates than the base."""
    model = tiny_copy_model("gpt2", {"init": "mup"})
    optimizer = AdamW(rate=RATE, decay=0.5)
    one = make_learner(model, optimizer, warmup=0)
    one.step(0, [copy_problem(model, 0)])
    groups = {weight: g for g in one.optimizer.param_groups for weight in g["params"]}
    n_wide = 0
    for name, weight in model.named_parameters():
        group, is_wide = groups[weight], ".layers." in name and weight.dim() == 2
        share = 64 / weight.shape[-1] if is_wide else 1.0
        assert group["lr"] == pytest.approx(RATE * share), name
        assert group["eps"] == pytest.approx(1e-12)
        if decays(name, weight):
            assert group["lr"] * group["weight_decay"] == pytest.approx(RATE * 0.5)
        n_wide += is_wide
    assert n_wide > 5
