"""The same run twice: torch's deterministic algorithms as a run asks, and a refusal by name
where there are none.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from copy_task import VOCABULARY, copy_batch, pose_copy_task, tiny_copy_model

from paribus.design.on import local as worker_pool
from paribus.errors import UnsupportedError
from paribus.record import current_environment
from paribus.record.address import run_address
from paribus.runtime import CUBLAS_WORKSPACE_VARIABLE, prepare_cuda, select_device
from paribus.spec.objectives import CausalLM
from paribus.spec.training import Training
from paribus.train.determinism import deterministic_algorithms, require_determinism
from paribus.train.learner import Learner


def mode() -> tuple[bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # pyright: ignore[reportAttributeAccessIssue]
    )


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("before", [(False, False), (True, False), (True, True)])
def test_the_mode_is_as_asked_inside_and_as_it_was_afterwards(
    asked: bool, before: tuple[bool, bool]
) -> None:
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    try:
        there = mode()
        with deterministic_algorithms(asked):
            assert mode() == (asked, False, False)
            with deterministic_algorithms(asked):
                assert mode() == (asked, False, False)
        assert mode() == there
        with pytest.raises(KeyError), deterministic_algorithms(asked):
            raise KeyError
        assert mode() == there
    finally:
        torch.use_deterministic_algorithms(False)


def test_an_operation_without_a_deterministic_form_is_refused_by_name() -> None:
    with (
        pytest.raises(
            UnsupportedError,
            match=r"the operation put_ has no deterministic form.*training.deterministic",
        ),
        deterministic_algorithms(True),
    ):
        torch.zeros(3).put_(torch.tensor([0, 0]), torch.ones(2))
    with deterministic_algorithms(False):
        torch.zeros(3).put_(torch.tensor([0, 0]), torch.ones(2))


def test_other_faults_pass_as_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^something else$"), deterministic_algorithms(True):
        raise RuntimeError("something else")


def test_a_product_made_too_early_is_refused_with_the_variable() -> None:
    said = (
        "Deterministic behavior was enabled with …, but this operation is not deterministic because"
        " it uses CuBLAS"
    )
    with (
        pytest.raises(
            UnsupportedError,
            match=r"made without CUBLAS_WORKSPACE_CONFIG; start Python anew with .*:4096:8",
        ),
        deterministic_algorithms(True),
    ):
        raise RuntimeError(said)


def test_a_workspace_that_does_not_repeat_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CUBLAS_WORKSPACE_VARIABLE, ":0:0")
    with pytest.raises(
        UnsupportedError, match=r"CUBLAS_WORKSPACE_CONFIG is ':0:0'.*set it to :4096:8 or :16:8"
    ):
        require_determinism(torch.device("cuda"))
    require_determinism(torch.device("cpu"))


def test_the_workspace_is_set_before_cuda_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CUBLAS_WORKSPACE_VARIABLE, raising=False)
    prepare_cuda(torch.device("cpu"))
    assert CUBLAS_WORKSPACE_VARIABLE not in os.environ
    prepare_cuda(torch.device("cuda"))
    assert os.environ[CUBLAS_WORKSPACE_VARIABLE] == ":4096:8"
    monkeypatch.setenv(CUBLAS_WORKSPACE_VARIABLE, ":16:8")
    prepare_cuda(torch.device("cuda"))
    assert os.environ[CUBLAS_WORKSPACE_VARIABLE] == ":16:8"
    monkeypatch.delenv(CUBLAS_WORKSPACE_VARIABLE)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    select_device(None)
    assert os.environ[CUBLAS_WORKSPACE_VARIABLE] == ":4096:8"
    monkeypatch.delenv(CUBLAS_WORKSPACE_VARIABLE)
    select_device("cuda:1")
    assert os.environ[CUBLAS_WORKSPACE_VARIABLE] == ":4096:8"


def test_workers_on_cuda_are_given_the_workspace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[dict[str, str]] = []

    def started(command: list[str], env: dict[str, str], **others: Any) -> object:
        given.append(env)
        return object()

    monkeypatch.delenv(CUBLAS_WORKSPACE_VARIABLE, raising=False)
    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    worker_pool._start_process(0, torch.device("cuda"), {})
    worker_pool._start_process(0, torch.device("cpu"), {"OWN": "1"})
    assert given[0][CUBLAS_WORKSPACE_VARIABLE] == ":4096:8"
    assert CUBLAS_WORKSPACE_VARIABLE not in given[1]
    assert given[1]["OWN"] == "1"


def test_workspace_and_cudnn_are_part_of_the_environment_on_cuda(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CUBLAS_WORKSPACE_VARIABLE, ":4096:8")
    there, here = current_environment(1, "cuda NVIDIA H200", 91900), current_environment(1, "cpu")
    assert (there["cublas_workspace_config"], there["cudnn"]) == (":4096:8", 91900)
    assert (here["cublas_workspace_config"], here["cudnn"]) == (None, None)


def test_determinism_is_part_of_a_runs_address() -> None:
    stages = [
        [{"training": Training(n_steps=2, deterministic=on).model_dump(mode="json")}]
        for on in (True, False)
    ]
    assert stages[0][0]["training"]["deterministic"] is True
    assert run_address(stages[0]) != run_address(stages[1])


def trained(deterministic: bool, seen: list[bool]) -> dict[str, torch.Tensor]:
    """A few steps on a CPU; which mode they were made in."""
    model = tiny_copy_model("mixtral")
    one = Learner(
        model,
        Training(n_steps=9, n_sequences=8, length=20, deterministic=deterministic),
        VOCABULARY,
    )
    watched = one.model_loss.forward

    def watch(*given: Any) -> Any:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return watched(*given)

    one.model_loss.forward = watch  # pyright: ignore[reportAttributeAccessIssue]
    for k in range(9):
        one.step(k, [pose_copy_task(CausalLM(), model, copy_batch(k))])
    return model.state_dict()


def test_on_a_cpu_both_modes_give_the_same_bits() -> None:
    seen: list[bool] = []
    first, second = trained(True, seen), trained(False, seen)
    assert seen == [True] * 9 + [False] * 9
    assert all(tensor.equal(second[name]) for name, tensor in first.items())
    assert not torch.are_deterministic_algorithms_enabled()
