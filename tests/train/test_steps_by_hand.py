"""Steps of learning against the same written out: Adam, its clipping and decay, the balance
loss, held-out scores.
"""

from collections.abc import Callable

import pytest
import torch
from copy_task import VOCABULARY, copy_batch, pose_copy_task, slice_batch, tiny_copy_model
from torch import Tensor

from paribus.model import DropoutKey, Transformer, balance_loss
from paribus.objectives import Problem, score
from paribus.spec import Experts
from paribus.spec.objectives import CausalLM
from paribus.spec.training import AdamW, Training
from paribus.train.learner import Learner
from paribus.train.model_loss import ModelWithLoss

WARMUP = 4
Weights = dict[str, Tensor]
RATE, BETA1, BETA2, EPS, DECAY = (
    0.03,
    0.6,
    0.85,
    0.02,
    0.5,
)  # far from each other and from the defaults


def drawn_student(preset: str, **changes: object) -> Transformer:
    """In double precision, with no weight left at the 0 or 1 it starts from: decay would not
    move a 0.
    """
    model = tiny_copy_model(preset, changes).double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3
            )
    return model


def training(clip: float | None, n_steps: int = 3) -> Training:
    optimizer = AdamW(rate=RATE, beta1=BETA1, beta2=BETA2, eps=EPS, decay=DECAY, clip=clip)
    return Training(n_steps=n_steps, n_sequences=8, length=20, optimizer=optimizer, warmup=WARMUP)


def rate(t: int) -> float:
    """Of the t-th step, counted from 1, all of them within the warm-up."""
    return RATE * t / WARMUP


def nats_sum(logits_BTV: Tensor, problem: Problem) -> Tensor:
    """In the precision of the logits: `score` has float32."""
    at = problem.scored_positions_BM[..., None].expand(-1, -1, logits_BTV.shape[-1])
    chances = logits_BTV.gather(1, at).log_softmax(-1)
    return -(chances.gather(-1, problem.targets_BM[..., None])[..., 0] * problem.weights_BM).sum()


def mean_nats(model: Transformer, problem: Problem) -> Tensor:
    return nats_sum(model(problem.inputs).logits_BTV, problem) / problem.weights_BM.sum()


def gradients(model: Transformer, loss: Tensor) -> Weights:
    names, weights = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, weights), strict=True))


def norm_of(slopes: Weights) -> float:
    return float(sum(slope.square().sum() for slope in slopes.values())) ** 0.5


def decays(name: str, weight: Tensor) -> bool:
    """Matrices and word tables do; gains, biases and tables of positions do not."""
    return weight.dim() == 2 and "positions" not in name


def stepped_by_hand(
    model: Transformer, losses: list[Callable[[], Tensor]], clip: float | None
) -> None:
    """Adam as its paper writes it, decay beside it, the gradient first cut to the greatest norm
    where it is longer.
    """
    first = {name: torch.zeros_like(weight) for name, weight in model.named_parameters()}
    second = {name: torch.zeros_like(weight) for name, weight in model.named_parameters()}
    for t, loss in enumerate(losses, 1):
        slopes = gradients(model, loss())
        scale = 1.0 if clip is None else min(1.0, clip / norm_of(slopes))
        with torch.no_grad():
            for name, weight in model.named_parameters():
                slope = slopes[name] * scale
                first[name] = BETA1 * first[name] + (1 - BETA1) * slope
                second[name] = BETA2 * second[name] + (1 - BETA2) * slope**2
                mean, square = first[name] / (1 - BETA1**t), second[name] / (1 - BETA2**t)
                if decays(name, weight):
                    weight -= rate(t) * DECAY * weight
                weight -= rate(t) * mean / (square.sqrt() + EPS)


@pytest.mark.parametrize(
    "share", [None, 0.25, 4.0], ids=["no limit", "a quarter of the norm", "four times the norm"]
)
def test_three_steps_are_those_of_adam_with_decay_and_clipping(share: float | None) -> None:
    """A limit above the norm changes nothing: a gradient is cut, never stretched."""
    ours, by_hand = drawn_student("gpt2"), drawn_student("gpt2")
    problems = [pose_copy_task(CausalLM(), ours, copy_batch(k)) for k in range(3)]
    norms = [norm_of(gradients(ours, mean_nats(ours, problem))) for problem in problems]
    clip = None if share is None else norms[0] * share
    one = Learner(ours, training(clip), VOCABULARY)
    told = [one.step(k, [problem]).gradient_norm.item() for k, problem in enumerate(problems)]
    assert told[0] == pytest.approx(norms[0])  # as it was before it was cut
    stepped_by_hand(by_hand, [lambda p=p: mean_nats(by_hand, p) for p in problems], clip)
    for (name, weight), expected in zip(ours.named_parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-6, atol=1e-9, msg=name)


@pytest.mark.parametrize("preset", ["gpt2", "bert", "t5", "deepseek-v3", "switch"])
def test_matrices_decay_and_nothing_else_does(preset: str) -> None:
    """Without a gradient only decay moves a weight: by rate · decay of itself."""
    model = drawn_student(preset)
    one = Learner(model, training(None), VOCABULARY)
    groups = {
        weight: group["weight_decay"]
        for group in one.optimizer.param_groups
        for weight in group["params"]
    }
    kinds = set()
    for name, weight in model.named_parameters():
        matrix = weight.dim() >= 2 and not any(
            word in name for word in ("positions", "relative", "segments")
        )
        assert groups[weight] == (DECAY if matrix else 0.0), name
        kinds.add(matrix)
    assert kinds == {True, False}
    assert len(groups) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("preset", "balance", "n_rows"),
    [("mixtral", "batch", 8), ("deepseek-v3", "sequence", 8), ("mixtral", "sequence", 2)],
)
def test_the_balance_loss_is_added_by_the_share_of_the_batch(
    preset: str, balance: str, n_rows: int
) -> None:
    model = drawn_student(preset, **{"feed_forward.balance": {"kind": balance, "weight": 0.5}})
    experts = model.architecture.feed_forward
    assert isinstance(experts, Experts)
    problem = pose_copy_task(CausalLM(), model, slice_batch(copy_batch(0), 0, n_rows))
    seen = ModelWithLoss(model, training(None), VOCABULARY)(
        problem, torch.tensor(0), torch.tensor(152.0)
    )
    out = model(problem.inputs)
    added = balance_loss(list(out.loads.values()), experts)
    assert added is not None
    assert added.item() > 0.5  # four layers of at least the weight
    nats = nats_sum(out.logits_BTV, problem)
    assert seen.loss.item() == pytest.approx((nats / 152 + added * n_rows / 8).item(), rel=1e-9)
    assert seen.counts[0].item() == pytest.approx(
        nats.item(), rel=1e-6
    )  # what is told is nats alone


def test_the_z_loss_is_trained_on_and_not_told() -> None:
    model = drawn_student("gpt2")
    problem = pose_copy_task(CausalLM(), model, copy_batch(0))
    penalised = training(None).model_copy(update={"z_loss": 0.25})
    seen = ModelWithLoss(model, penalised, VOCABULARY)(
        problem, torch.tensor(0), torch.tensor(152.0)
    )
    logits = model(problem.inputs).logits_BTV
    # nothing is asked after the last token
    nats, spread = (
        nats_sum(logits, problem),
        logits.logsumexp(-1)[:, :-1],
    )
    assert seen.loss.item() == pytest.approx(
        ((nats + 0.25 * spread.square().sum()) / 152).item(), rel=1e-9
    )
    assert seen.counts[0].item() == pytest.approx(nats.item(), rel=1e-6)


def test_a_step_on_the_balance_loss_makes_experts_more_alike() -> None:
    """With a weight so large that it is all that counts, the crowded lose and the idle win."""
    model = tiny_copy_model(
        "mixtral", {"feed_forward.balance": {"kind": "batch", "weight": 100.0}}
    ).double()
    problem = pose_copy_task(CausalLM(), model, copy_batch(0))

    experts = model.architecture.feed_forward
    assert isinstance(experts, Experts)

    def balance() -> float:
        found = balance_loss(list(model(problem.inputs).loads.values()), experts)
        assert found is not None
        return found.item()

    before = balance()
    optimizer = AdamW(rate=1e-3, decay=0.0)
    one = Learner(
        model, Training(n_steps=20, n_sequences=8, length=20, optimizer=optimizer), VOCABULARY
    )
    for k in range(20):
        one.step(k, [problem])
    assert balance() < before


def test_held_out_text_is_scored_without_dropout() -> None:
    model = tiny_copy_model("gpt2", {"dropout": 0.5})
    problem = pose_copy_task(CausalLM(), model, copy_batch(0))
    sums = Learner(model, training(None), VOCABULARY).score_sums(problem)
    nats, count = sums["nats_sum"], sums["target_count"]
    plain = score(model(problem.inputs).logits_BTV, problem, VOCABULARY)
    assert (nats, count) == (pytest.approx(plain.nats_sum.item(), rel=1e-5), 152)
    dropped = score(model(problem.inputs, DropoutKey(1, 0)).logits_BTV, problem, VOCABULARY)
    assert dropped.nats_sum.item() != pytest.approx(nats, rel=1e-3)


def test_a_step_learns_with_the_dropout_of_its_seed_and_number() -> None:
    model = tiny_copy_model("gpt2", {"dropout": 0.5})
    problem = pose_copy_task(CausalLM(), model, copy_batch(0))
    for step in (0, 3):
        told = (
            Learner(model, training(None, 5), VOCABULARY)
            .model_loss(problem, torch.tensor(step), torch.tensor(1.0))
            .counts[0]
        )
        expected = score(
            model(problem.inputs, DropoutKey(1, step)).logits_BTV, problem, VOCABULARY
        ).nats_sum
        assert told.item() == pytest.approx(expected.item(), rel=1e-5)
