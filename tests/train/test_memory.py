"""Memory that is not there is told of before any of it is taken."""

import pytest
import torch

from paribus.errors import UnsupportedError
from paribus.model import build, restore, save
from paribus.runtime import free_memory, require_memory
from paribus.spec import load
from paribus.spec.run import load_run
from paribus.train.memory import require_training_memory, training_bytes

CPU = torch.device("cpu")
TINY = {"preset": "gpt2", "n_layers": 1, "d_model": 6, "attention": {"n_heads": 2}}
RUN = {
    "architecture": {**TINY, "n_vocab": 400, "max_length": 16},
    "training": {"n_steps": 2, "n_sequences": 3, "length": 16},
}


def test_a_model_that_no_machine_holds_is_refused_with_its_size():
    said = (
        r"a model of 62,\d+,\d+,\d+ numbers needs at least 2\d\d\.\d GB of memory, and cpu has"
        r" [\d.,]+ GB free here;"
    )
    with pytest.raises(UnsupportedError, match=said):
        build(load("gpt2", n_layers=1, d_model=72_000, n_heads=2, n_vocab=400))
    assert build(load("gpt2", d_model=100_000, n_heads=2), device="meta").embedding.weight.is_meta


def test_a_checkpoint_is_not_restored_where_there_is_no_room(tmp_path, monkeypatch):
    save(build(load(TINY, n_vocab=11, max_length=13)), tmp_path / "one")
    monkeypatch.setattr("paribus.runtime._unused_memory", lambda: 1000)
    with pytest.raises(
        UnsupportedError,
        match=r"a model of [\d,]+ numbers needs at least 0\.0 GB of memory, and cpu",
    ):
        restore(tmp_path / "one")


def test_what_a_run_cannot_do_without_is_counted():
    spec = load_run(RUN)
    n_parameters = sum(parameter.numel() for parameter in build(spec.architecture).parameters())
    assert training_bytes(spec) == 16 * n_parameters + 24 * 48 + 2 * 48 * 6
    require_training_memory(spec, CPU)


def test_a_rank_needs_its_part_of_the_weights_and_the_tables():
    spec = load_run(RUN)
    model = build(spec.architecture)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    n_tables = (400 + 16) * 6
    part = -(-16 * n_parameters // 3) + 4 * n_tables
    assert training_bytes(spec, 3) == part + 24 * 48 + 2 * 16 * 6
    training = {"n_steps": 2, "n_sequences": 4, "length": 16, "n_micro_batches": 4}
    spec = load_run({**RUN, "training": training})
    part = -(-16 * n_parameters // 2) + 4 * n_tables
    # each rank adds up two micro-batches, in a gradient that is not cut
    assert training_bytes(spec, 2) == part + 4 * n_parameters + 24 * 64 + 2 * 16 * 6


def test_runs_side_by_side_need_as_much_each(monkeypatch):
    spec = load_run(RUN)
    monkeypatch.setattr("paribus.runtime._unused_memory", lambda: 2 * training_bytes(spec))
    require_training_memory(spec, CPU, 2)
    with pytest.raises(
        UnsupportedError, match="architecture: training 3 such runs at once needs at least"
    ):
        require_training_memory(spec, CPU, 3)


def test_a_machine_has_some_memory_and_a_container_may_have_less(tmp_path, monkeypatch):
    assert free_memory(CPU) > 2**20
    limit = tmp_path / "memory.max"
    monkeypatch.setattr("paribus.runtime._LIMITS", (limit, tmp_path / "none"))
    limit.write_text("max\n")
    assert free_memory(CPU) > 2**20
    limit.write_text("4096\n")
    assert free_memory(CPU) == 4096
    monkeypatch.setattr("paribus.runtime._LIMITS", ())
    monkeypatch.setattr("paribus.runtime._MEMINFO", tmp_path / "none")
    assert free_memory(CPU) > 2**20
    require_memory(2**70, torch.device("meta"), "nothing")
