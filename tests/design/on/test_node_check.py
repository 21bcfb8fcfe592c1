"""A node is fit for the runs of a study if it sees the same folder, locks included, has the same
code and environment, and has room.
"""

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from trained_study import CPU, make_small_plan

from paribus.design.cells import reported_cells
from paribus.design.on.node_check import (
    NodeCheck,
    cells_check,
    node_token,
    require_fit_node,
    run_disk_bytes,
)
from paribus.design.on.ray_worker import NodeWorker
from paribus.errors import ParibusError, RecordError, UnsupportedError
from paribus.record import current_environment, runs
from paribus.runtime import device_kind
from paribus.spec import resolve
from paribus.spec.price import count_parameters

HOST = socket.gethostname()


def here() -> dict[str, Any]:
    return current_environment(torch.get_num_threads(), device_kind(CPU))


@pytest.fixture
def check(tmp_path: Path, study_cache: Path) -> Iterator[NodeCheck]:
    """What a node must have for the little study; its token is there."""
    plan = make_small_plan(study_cache)
    cells = reported_cells(plan, {arm.name: 0.05 for arm in plan.arms})
    with node_token(tmp_path / "runs") as secret:
        yield cells_check(cells, tmp_path / "runs", secret, CPU, here())


def token_of(check: NodeCheck) -> Path:
    return Path(check.root) / f".nodes-{check.secret}.json"


def test_a_node_that_sees_the_same_is_fit(check: NodeCheck) -> None:
    require_fit_node(check)
    assert check.host == HOST
    assert len(check.text_folders) == 1


def test_a_worker_says_why_its_node_is_not_fit(check: NodeCheck, tmp_path: Path) -> None:
    code_alone = replace(check, environment={"code": here()["code"]})
    other_code = replace(code_alone, environment={"code": "0" * 64})
    worker = NodeWorker({}, str(tmp_path))
    assert worker.run_job({"node_check": code_alone.table}) == {}
    answer = worker.run_job({"node_check": other_code.table})
    worker.stop()
    assert answer["unfit"].startswith(f"the node {HOST} has other code: code is")


def test_a_token_is_no_run_and_is_removed_in_the_end(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    with node_token(root) as first, node_token(root) as second:
        assert first != second
        assert len(list(root.iterdir())) == 4
        assert not list(runs(root))
    assert not list(root.iterdir())


def test_a_folder_without_the_token_is_another_folder(check: NodeCheck) -> None:
    elsewhere = replace(check, secret="0" * 16)
    with pytest.raises(RecordError, match=rf"the node {HOST} does not see the folder of runs of"):
        require_fit_node(elsewhere)


@pytest.mark.parametrize("name", ["root", "secret", "host"])
def test_a_planted_token_is_noticed(check: NodeCheck, name: str) -> None:
    token = token_of(check)
    token.write_text(json.dumps({**json.loads(token.read_text()), name: "another"}))
    with pytest.raises(RecordError, match=rf"the node {HOST} sees another folder of runs than"):
        require_fit_node(check)


def test_a_token_that_is_torn_is_said(check: NodeCheck) -> None:
    token_of(check).write_text("{")
    with pytest.raises(RecordError, match=r"is not JSON: .* mount the same folder at"):
        require_fit_node(check)


def test_a_folder_whose_locks_other_machines_do_not_see_is_refused(check: NodeCheck) -> None:
    lock = token_of(check).with_suffix(".lock")
    lock.unlink()
    lock.touch()  # as it looks where each machine keeps its own locks
    with pytest.raises(RecordError, match=r"does not see locks that .* two machines could train"):
        require_fit_node(check)
    require_fit_node(replace(check, is_locked=False))


def test_text_that_a_node_does_not_see_is_named(check: NodeCheck, tmp_path: Path) -> None:
    away = replace(check, text_folders=[str(tmp_path / "cache" / "0123")])
    with pytest.raises(RecordError, match=r"does not see the tokenised text .*/cache/0123 of"):
        require_fit_node(away)


def test_other_code_is_refused_by_its_fingerprint(check: NodeCheck) -> None:
    other = {**here(), "code": "f" * 64}
    with pytest.raises(UnsupportedError, match=rf"has other code: code is {here()['code']} there"):
        require_fit_node(replace(check, environment=other))


def test_other_threads_and_libraries_are_refused_unless_they_are_not_asked_for(
    check: NodeCheck,
) -> None:
    other = {**here(), "torch": "1.0", "n_threads": 99}
    with pytest.raises(UnsupportedError, match=r"torch is \S+ there and 1\.0 on .*n_threads is"):
        require_fit_node(replace(check, environment=other))
    require_fit_node(replace(check, environment={"code": here()["code"]}))


@pytest.mark.parametrize(
    ("name", "what"),
    [("n_bytes", "the folder of runs"), ("n_temporary_bytes", "its temporary folder")],
)
def test_a_disk_without_room_is_refused(check: NodeCheck, name: str, what: str) -> None:
    full = replace(check, **{name: 2**60})
    with pytest.raises(
        UnsupportedError, match=rf"MB free in {what}, .* needs 1,152,921,504,607 MB"
    ):
        require_fit_node(full)


def test_a_run_needs_room_for_the_checkpoints_that_it_keeps_and_one_more(study_cache: Path) -> None:
    plan = make_small_plan(study_cache, {"base.training.keep_last": 4})
    run = plan.arms[0].run
    n_parameters = count_parameters(resolve(run.last_architecture)).total
    assert run_disk_bytes(run) == 16 * 2**20 + 5 * 3 * 4 * n_parameters


def test_a_root_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(ParibusError, match=r"runs cannot be written: .*give a folder you may"):
        node_token(tmp_path / "runs").__enter__()
