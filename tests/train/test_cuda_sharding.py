"""Sharded weights on CUDA, in a group of one rank: each block compiled, no step captured, and the
same learning.
"""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from copy_task import VOCABULARY, copy_batch, pose_copy_task
from tiny_model import tiny_architecture

from paribus.model import build
from paribus.spec.objectives import CausalLM, PrefixLM
from paribus.spec.training import Training
from paribus.train import model_loss
from paribus.train.learner import Learner
from paribus.train.ranks import Ranks
from paribus.train.training_state import collect_training_tensors

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda", 0)
N_STEPS = 8
REL = 5e-4  # measured: equal bit for bit for experts, on an H200


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """A group of one rank in this process."""
    torch.cuda.set_device(CUDA)
    store = dist.HashStore()
    dist.init_process_group("cpu:gloo,cuda:nccl", store=store, rank=0, world_size=1)
    try:
        yield Ranks(0, 1, CUDA)
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("preset", ["gpt2", "deepseek-v3", "encdec-shared"])
def test_sharded_weights_learn_on_cuda_as_whole_ones(
    preset: str, ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whole weights compiled block by block, too. In bfloat16 a model compiled as one rounds
    # elsewhere, and experts chosen otherwise then move the loss by tenths of a percent.
    monkeypatch.setattr(model_loss, "_compiles_by_block", lambda model: True)
    spec = tiny_architecture(preset, {"n_vocab": VOCABULARY.size})
    training = Training(n_steps=N_STEPS, n_sequences=16, length=20, n_micro_batches=2, warmup=0)
    plain = Learner(build(spec, seed=1, device=CUDA), training, VOCABULARY)
    sharded = Learner(build(spec, device="meta"), training, VOCABULARY, ranks)
    sharded.initialise(1)
    assert not sharded.graph_runner.captures
    objective = CausalLM() if plain.model.encoder is None else PrefixLM()
    for step in range(N_STEPS):
        problems = []
        for number in range(2):
            text = copy_batch(2 * step + number)
            problems.append(pose_copy_task(objective, plain.model, text))
        mine, theirs = plain.step(step, problems), sharded.step(step, problems)
        nats = (mine.nats_sum / mine.target_count).item()
        assert (theirs.nats_sum / theirs.target_count).item() == pytest.approx(nats, rel=REL)
        assert sharded.score_sums(problems[0]) == pytest.approx(
            plain.score_sums(problems[0]), rel=REL
        )
    whole, gathered = collect_training_tensors(plain), collect_training_tensors(sharded)
    assert list(whole.weights) == list(gathered.weights)
    assert list(whole.optimizer) == list(gathered.optimizer)
    for name, tensor in whole.weights.items():
        assert gathered.weights[name].shape == tensor.shape
        assert gathered.weights[name].device.type == "cpu"
