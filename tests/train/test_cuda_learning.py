"""Learning on CUDA: compiled, replayed, in bf16, and still the same learning."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from copy_task import VOCABULARY, copy_batch, copy_learner, pose_copy_task, tiny_copy_model
from tiny_model import tiny_architecture

from paribus.batch import TextBatch
from paribus.model import build
from paribus.objectives import pose_problem, separates_documents
from paribus.spec import load
from paribus.spec.objectives import CausalLM, MaskedLM, Objective, PrefixLM, Seq2Seq, SpanCorruption
from paribus.spec.training import Training
from paribus.train import cuda_graph
from paribus.train.cross_entropy import Targets, cross_entropy_
from paribus.train.learner import Learner
from paribus.train.loss import nats_sum

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda")


@pytest.mark.parametrize("n_words", [17, 363, 8192, 50304])
@pytest.mark.parametrize("z_loss", [0.0, 0.01])
def test_the_kernel_gives_the_slope_of_the_plain_softmax(n_words: int, z_loss: float) -> None:
    logits = (torch.randn(37, n_words, device=CUDA) * 3).bfloat16()
    targets, weights = torch.randint(n_words, (37,), device=CUDA), torch.rand(37, device=CUDA)
    leaf = logits.double().requires_grad_()
    spread = leaf.logsumexp(-1)
    nats = F.cross_entropy(leaf, targets, reduction="none")
    ((nats + z_loss * spread**2) * weights).sum().backward()
    mine = logits.clone()
    untouched = cross_entropy_(mine, Targets(targets, weights), z_loss, with_gradient=False)
    assert torch.equal(mine, logits)
    for got, told in zip(
        cross_entropy_(mine, Targets(targets, weights), z_loss, with_gradient=True),
        untouched,
        strict=True,
    ):
        assert torch.equal(got, told)
    torch.testing.assert_close(untouched[0].double(), spread.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        (untouched[0] - untouched[1]).double(), nats.detach(), rtol=1e-4, atol=1e-4
    )
    assert leaf.grad is not None
    torch.testing.assert_close(mine.double(), leaf.grad, rtol=0.01, atol=1e-4)


def test_chunks_and_their_sums_agree_with_float64() -> None:
    states, table = torch.randn(300, 64, device=CUDA), torch.randn(97, 64, device=CUDA) * 0.1
    targets, weights = torch.randint(97, (300,), device=CUDA), torch.ones(300, device=CUDA)
    leaves = [states.requires_grad_(), table.requires_grad_()]
    nats, trained = nats_sum(states, table, None, targets, weights, 0.0)
    mine = torch.autograd.grad(trained, leaves)
    exact = F.cross_entropy(states.double() @ table.double().T, targets, reduction="sum")
    assert nats.item() == pytest.approx(exact.item(), rel=2e-3)
    for got, true in zip(mine, torch.autograd.grad(exact, leaves), strict=True):
        assert got.dtype == torch.float32
        assert (got - true).norm() < 0.01 * true.norm()


def learnt(
    preset: str,
    objective: Objective,
    n_steps: int,
    device: torch.device,
    changes: Mapping[str, Any] | None = None,
) -> tuple[list[float], Learner]:
    changes = {"n_vocab": VOCABULARY.size, **(changes or {})}
    spec = tiny_architecture(preset, changes)
    # logits of order one, as where the head has a table of its own: bf16 rounds larger ones
    # coarsely
    if spec.head.tied:
        spec = tiny_architecture(preset, {**changes, "head.scale": spec.d_model**-0.5})
    model = build(spec, seed=1, device=device)
    training = Training(n_steps=n_steps, n_sequences=8, length=20, warmup=5)
    one = Learner(model, training, VOCABULARY)
    nats = []
    for k in range(n_steps):
        posed_here = pose_problem(
            objective,
            copy_batch(k),
            VOCABULARY,
            1,
            model.encoder is not None,
            separates_documents(model.spec),
        )
        sums = one.step(k, [posed_here.pin_memory()])
        nats.append((sums.nats_sum / sums.target_count).item())
    return nats, one


CASES = [
    ("gpt2", CausalLM()),
    ("llama", CausalLM()),
    ("unilm", PrefixLM(grid=4)),
    ("bert", MaskedLM()),
    ("bart", PrefixLM(grid=4)),
    ("t5", SpanCorruption()),
    ("deepseek-v3", CausalLM()),
    ("mixtral", CausalLM()),
]


@pytest.mark.parametrize(("preset", "objective"), CASES, ids=[preset for preset, _ in CASES])
def test_the_curve_is_that_of_the_cpu(preset: str, objective: Objective) -> None:
    there, one = learnt(preset, objective, 24, CUDA)
    here, _ = learnt(preset, objective, 24, torch.device("cpu"))
    assert one.graph_runner.graphs  # steps were replayed, not only launched
    assert here[-1] < here[0] - 0.05
    for cuda, cpu in zip(there, here, strict=True):
        assert cuda == pytest.approx(cpu, abs=0.05)


def test_prefixes_of_many_lengths_are_learnt_by_one_compiled_model() -> None:
    wide = {
        "d_model": 32,
        "attention.n_heads": 4,
        "attention.n_kv_heads": 4,
        "attention.d_head": 8,
    }  # cuDNN takes these
    there, _ = learnt("unilm", PrefixLM(grid=16), 24, CUDA, wide)
    here, _ = learnt("unilm", PrefixLM(grid=16), 24, torch.device("cpu"), wide)
    assert there == pytest.approx(here, abs=0.05)


def pairs_of_many_lengths(n_rows: int, length: int) -> TextBatch:
    draws = torch.Generator().manual_seed(1)
    n_real = torch.randint(length // 4, length + 1, (n_rows,), generator=draws)
    real = torch.arange(length) < n_real[:, None]
    tokens = torch.randint(VOCABULARY.n_text, (n_rows, length), generator=draws).where(
        real, torch.tensor(VOCABULARY.pad)
    )
    zeros = torch.zeros_like(tokens)
    return TextBatch(0, torch.arange(n_rows), tokens, zeros, zeros, real, n_real // 2)


@pytest.mark.parametrize("mask", ["causal", "prefix", "causal & same_side"])
@pytest.mark.parametrize("length", [96, 256])
def test_held_out_pairs_are_scored_as_on_the_cpu(mask: str, length: int) -> None:
    changes = {
        "mask": mask,
        "positions": "rotary",
        "n_layers": 2,
        "d_model": 128,
        "attention": {"n_heads": 4},
        "head.scale": 0.1,
    }
    spec = load("gpt2", n_vocab=VOCABULARY.size, max_length=length, changes=changes)
    problem = pose_problem(
        Seq2Seq(), pairs_of_many_lengths(64, length), VOCABULARY, 1, False, False
    )
    training = Training(n_steps=8, n_sequences=64, length=length, warmup=2)
    scores = []
    for device in (torch.device("cpu"), CUDA):
        one = Learner(build(spec, seed=1, device=device), training, VOCABULARY)
        before = one.score_sums(problem)
        for k in range(8):
            one.step(k, [problem])
        scores.append([before, one.score_sums(problem)])
    (here, learnt_here), (there, learnt_there) = scores
    assert learnt_here["nats_sum"] < here["nats_sum"]
    assert there == pytest.approx(here, rel=2e-3)
    assert learnt_there == pytest.approx(learnt_here, rel=1e-2)


def test_a_replayed_step_is_the_launched_one(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed, _ = learnt("gpt2", CausalLM(), 12, CUDA)
    monkeypatch.setattr(cuda_graph, "MAX_GRAPHS", 0)
    launched, one = learnt("gpt2", CausalLM(), 12, CUDA)
    assert not one.graph_runner.graphs
    assert replayed == pytest.approx(launched, abs=2e-3)


@pytest.mark.parametrize("most", [0, 16])
def test_a_step_asks_the_device_nothing(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graph, "MAX_GRAPHS", most)
    model = tiny_copy_model("gpt2").to(CUDA)
    one = copy_learner(model)
    problems = [pose_copy_task(CausalLM(), model, copy_batch(k)).pin_memory() for k in range(8)]
    for k in range(5):
        one.step(k, [problems[k]])
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for k in range(5, 8):
            one.step(k, [problems[k]])
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_replayed_step_moves_nothing_after_a_gradient_that_is_not_finite() -> None:
    _, one = learnt("gpt2", CausalLM(), 6, CUDA)
    model = one.model
    with torch.no_grad():
        kept = model.embedding.weight[3, 5].item()
        model.embedding.weight[3, 5] = float("inf")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sums = one.step(6, [pose_copy_task(CausalLM(), model, copy_batch(6)).pin_memory()])
    assert sums.target_count.item() == 0
    with torch.no_grad():
        model.embedding.weight[3, 5] = kept
    one.step(7, [pose_copy_task(CausalLM(), model, copy_batch(7)).pin_memory()])
    assert (one.diverged.item(), one.diverged_step.item()) == (1, 6)
    before["embedding.weight"][3, 5] = kept
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_one_run_after_another_holds_no_more_memory() -> None:
    held = []
    for _ in range(3):
        learnt("bart", PrefixLM(grid=4), 12, CUDA)
        torch.cuda.empty_cache()
        held.append(torch.cuda.memory_reserved())
    assert held[2] == held[1]
