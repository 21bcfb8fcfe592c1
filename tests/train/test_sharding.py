"""Weights that ranks share out: what is refused, and that a group of one rank changes no bit."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from copy_task import VOCABULARY, copy_batch, pose_copy_task, tiny_copy_model

from paribus.errors import SpecError, UnsupportedError
from paribus.model import Transformer, build
from paribus.model.shards import fill_rows, gather_tensors, is_sharded, own_rows, sharded_like
from paribus.objectives import Problem
from paribus.spec.objectives import CausalLM, Preference, PrefixLM
from paribus.spec.run import load_run
from paribus.spec.training import Adafactor, Muon, Training
from paribus.train.learner import Learner
from paribus.train.ranks import Ranks, join_ranks
from paribus.train.sharding import require_several_ranks, require_shardable

CPU = torch.device("cpu")
RUN = {"architecture": "gpt2", "training": {"n_steps": 1}}
TRAINING = Training(n_steps=6, n_sequences=4, length=20, n_micro_batches=2, warmup=0)


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """A group of one rank in this process, which shares out the weights with nobody."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield Ranks(0, 1, CPU)
    finally:
        dist.destroy_process_group()


def copy_problems(model: Transformer, step: int) -> list[Problem]:
    """Two micro-batches of a step."""
    objective = CausalLM() if model.encoder is None else PrefixLM()
    problems: list[Problem] = []
    for number in range(2):
        text = copy_batch(2 * step + number, n_rows=2)
        problems.append(pose_copy_task(objective, model, text))
    return problems


@pytest.mark.parametrize("preset", ["gpt2", "deepseek-v3", "encdec-shared"])
def test_a_group_of_one_rank_learns_bit_for_bit_as_a_process_without_ranks(
    preset: str, ranks: Ranks
) -> None:
    plain = Learner(tiny_copy_model(preset), TRAINING, VOCABULARY)
    shapes = build(plain.model.architecture, device="meta")
    sharded = Learner(shapes, TRAINING, VOCABULARY, ranks)
    sharded.initialise(1)
    assert all(is_sharded(tensor) for tensor in sharded.named_parameters().values())
    for step in range(6):
        problems = copy_problems(plain.model, step)
        mine, theirs = plain.step(step, problems), sharded.step(step, problems)
        assert torch.equal(mine.nats_sum, theirs.nats_sum)
        assert torch.equal(mine.gradient_norm, theirs.gradient_norm)
        # scoring puts tables together, and lets go of them
        assert plain.score_sums(problems[0]) == sharded.score_sums(problems[0])
    weights = gather_tensors(sharded.model.state_dict(), keeps=True)
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(tensor, weights[name]), name
    assert gather_tensors(sharded.model.state_dict(), keeps=False) == {}
    assert sharded.first_nonfinite() is None


def test_a_weight_that_is_not_finite_is_named(ranks: Ranks) -> None:
    learner = Learner(tiny_copy_model("gpt2"), TRAINING, VOCABULARY, ranks)
    with torch.no_grad():
        own_rows(learner.named_parameters()["stack.layers.0.attention.query.weight"])[0, 0] = 1e400
    assert learner.first_nonfinite() == "stack.layers.0.attention.query.weight"


def test_rows_are_filled_and_cut_as_a_whole_tensor_says(ranks: Ranks) -> None:
    learner = Learner(tiny_copy_model("gpt2"), TRAINING, VOCABULARY, ranks)
    place = learner.named_parameters()["embedding.weight"]
    values = torch.randn(place.shape)
    fill_rows(place, values)
    assert torch.equal(own_rows(place), values)
    copy = sharded_like(values, place, CPU)
    assert is_sharded(copy)
    own_rows(copy).zero_()  # it is a copy, and not the tensor that it was cut from
    assert torch.equal(own_rows(place), values)
    plain = torch.zeros_like(values)
    fill_rows(plain, values)
    assert not is_sharded(plain)
    assert own_rows(plain) is plain
    assert torch.equal(plain, values)


@pytest.mark.parametrize("optimizer", [Muon(), Adafactor()])
def test_optimizers_that_need_whole_matrices_are_refused(optimizer: Muon | Adafactor) -> None:
    stage = load_run(RUN).last
    require_shardable(stage)
    training = stage.training.model_copy(update={"optimizer": optimizer})
    with pytest.raises(
        SpecError,
        match=f"training.optimizer is {optimizer.kind}, which needs whole matrices, and with --fsdp"
        " a rank holds some rows of each; use adamw, or leave out --fsdp",
    ):
        require_shardable(stage.model_copy(update={"training": training}))


def test_preferences_are_refused() -> None:
    stage = load_run(RUN).last
    with pytest.raises(
        SpecError,
        match="objective is preference, which compares with a second model, and that one is not"
        " sharded; train this stage without --fsdp",
    ):
        require_shardable(stage.model_copy(update={"objective": Preference()}))


def test_one_process_has_nobody_to_share_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    said = "--fsdp is given, but there is only one process; start several with `torchrun"
    with pytest.raises(SpecError, match=said), join_ranks(CPU, fsdp=True):
        pass
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(SpecError, match=said), join_ranks(CPU, fsdp=True):
        pass


def test_devices_that_cannot_share_are_refused() -> None:
    require_several_ranks(2, CPU)
    with pytest.raises(UnsupportedError, match="device is mps; use cpu or cuda"):
        require_several_ranks(2, torch.device("mps"))


def test_ranks_that_share_out_weights_say_into_how_many_parts() -> None:
    assert Ranks(0, 4).n_shards == 1
    assert replace(Ranks(0, 4), shard_device=CPU).n_shards == 4
