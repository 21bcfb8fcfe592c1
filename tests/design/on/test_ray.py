"""What runs take of a Ray cluster, and what a worker on a node does; Ray itself is in
test_ray_cluster.py.
"""

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from trained_study import make_small_plan

from paribus.design.cell_run import is_complete
from paribus.design.cells import Cell, reported_cells
from paribus.design.on import ray_connection
from paribus.design.on.local import WorkerPool
from paribus.design.on.node_check import cells_check
from paribus.design.on.places import require_installed, scheduler_of
from paribus.design.on.ray import RayCluster
from paribus.design.on.ray_resources import (
    RunResources,
    describe_resources,
    run_resources,
    worker_variables,
)
from paribus.design.on.ray_worker import NodeWorker
from paribus.errors import UnsupportedError
from paribus.record import open_study
from paribus.workspace import Execution, Local, Ray, Workspace

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def small_cell(cache: Path, n_steps: int) -> Cell:
    changes = {"base.training.n_steps": n_steps, "base.training.checkpoint_every": n_steps}
    plan = make_small_plan(cache, changes, n_jobs=2)
    return reported_cells(plan, {arm.name: 0.05 for arm in plan.arms})[0]


def test_every_place_has_its_scheduler(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, device="cpu")
    assert isinstance(scheduler_of(Execution(workspace)), WorkerPool)
    assert isinstance(scheduler_of(Execution(workspace, on=Ray("10.0.0.1:6379"))), RayCluster)


def test_a_missing_package_is_asked_for_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connection, "find_spec", lambda _: None)
    require_installed(Local())
    text = r"--on ray needs ray, which is not installed; run pip install 'paribus\[cluster\]'"
    with pytest.raises(UnsupportedError, match=text):
        require_installed(Ray())


@pytest.mark.parametrize(
    ("family", "host", "address"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1:{port}"),
        (socket.AF_INET6, "::1", "[::1]:{port}"),
    ],
)
def test_a_head_node_is_looked_for_at_its_address(
    family: socket.AddressFamily, host: str, address: str
) -> None:
    server = socket.socket(family)
    try:
        server.bind((host, 0))
    except OSError:
        server.close()
        pytest.skip(f"{host} is not an address of this machine")
    named = address.format(port=server.getsockname()[1])
    with server:
        server.listen()
        ray_connection._require_answer(named)
        server.settimeout(60)
        server.accept()[0].close()  # it was here that somebody knocked
    with pytest.raises(
        UnsupportedError, match=r"no Ray cluster answers at .*; give the address that"
    ):
        ray_connection._require_answer(named)


class RefusedError(Exception):
    """What Ray raises where a token is missing."""


class RefusingRay:
    """A library whose clusters let nobody in, but for a new local one."""

    def __init__(self, fault: Exception):
        self.fault = fault
        self.exceptions = SimpleNamespace(RayError=RefusedError)
        self.addresses: list[str | None] = []

    def init(self, address: str | None, **_: object) -> None:
        self.addresses.append(address)
        if address != "local":
            raise self.fault


@pytest.mark.parametrize("address", ["10.0.0.1:6379", None])
def test_a_cluster_that_lets_nobody_in_without_a_token_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str | None
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(ray_connection, "_require_answer", lambda _: None)
    ray = RefusingRay(RefusedError("the token is missing\nand more"))
    said = "does not let this process in: the token is missing; if it has a token, copy that to"
    with pytest.raises(
        UnsupportedError, match=rf"{said} ~/.ray/auth_token and run export RAY_AUTH"
    ):
        ray_connection._connect(ray, address)
    assert ray.addresses == [address]


def test_where_the_cluster_of_this_machine_is_gone_a_local_one_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    ray = RefusingRay(ConnectionError("nobody is there"))
    ray_connection._connect(ray, None)
    assert ray.addresses == [None, "local"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_cluster_that_ray_start_left_the_name_of_is_asked_only_where_it_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_there: bool
) -> None:
    """Ray itself would wait for minutes for a host that is gone."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(ray_connection, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text(f"{address}\n")
        if not is_there:
            server.close()
        ray = RefusingRay(ConnectionError("nobody is there"))
        ray_connection._connect(ray, None)
    assert ray.addresses == ([None, "local"] if is_there else ["local"])


def test_a_run_takes_a_cpu_for_each_thread_or_a_share_of_a_gpu() -> None:
    assert run_resources(CPU, 1) == RunResources(torch.get_num_threads(), 0)
    assert run_resources(CPU, 5) == RunResources(1, 0)
    assert run_resources(CUDA, 4) == RunResources(1, 0.25)
    assert str(run_resources(CPU, 5)) == "one CPU for each of its threads, 1 in all"
    assert str(run_resources(CUDA, 4)) == "1 CPU and 0.25 of a GPU"
    with pytest.raises(UnsupportedError, match="cannot share out the device mps; use cpu or cuda"):
        run_resources(torch.device("mps"), 1)


@pytest.mark.parametrize(
    ("resources", "node", "n_jobs", "n_places"),
    [
        (RunResources(1, 0), {"CPU": 8.0}, 3, 3),
        (RunResources(1, 0), {"CPU": 2.0}, 3, 2),
        (RunResources(8, 0), {"CPU": 7.0}, 1, 0),
        (RunResources(8, 0), {"CPU": 64.0}, 1, 1),
        (RunResources(1, 0.25), {"CPU": 64.0, "GPU": 2.0}, 4, 8),
        (RunResources(1, 0.25), {"CPU": 5.0, "GPU": 2.0}, 4, 5),
        (RunResources(1, 0.25), {"CPU": 64.0}, 4, 0),
        (RunResources(1, 0), {}, 1, 0),
    ],
)
def test_a_node_has_as_many_places_as_jobs_were_asked_for_and_fit(
    resources: RunResources, node: dict[str, float], n_jobs: int, n_places: int
) -> None:
    assert resources.n_places({"Resources": node}, n_jobs) == n_places


def test_what_a_cluster_has_is_said_in_a_few_words() -> None:
    assert describe_resources({"CPU": 64.0, "GPU": 1.75, "memory": 5e9}) == "64 CPU and 1.75 GPU"
    assert describe_resources({}) == "0 CPU"


def test_runs_of_a_node_share_its_cpus_to_compile() -> None:
    node = {"Resources": {"CPU": 64.0, "GPU": 2.0}}
    assert RunResources(1, 0.25).n_compile_threads(node, 4) == 8
    assert RunResources(8, 0).n_compile_threads(node, 1) == 64
    assert RunResources(1, 0).n_compile_threads({"Resources": {}}, 1) == 1


def test_workers_have_the_threads_of_local_runs_whatever_ray_sets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert worker_variables(2)["OMP_NUM_THREADS"] == "1"
    assert worker_variables(1)["OMP_NUM_THREADS"] is None
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert worker_variables(1)["OMP_NUM_THREADS"] == "7"


def environment_of_child(
    worker: NodeWorker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The environment in which a node worker starts its process."""
    script = folder / "python"
    script.write_text(
        f"#!{sys.executable}\nimport json, os\nprint(json.dumps(dict(os.environ)), flush=True)\n"
        "input()\n"
    )
    script.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(script))
        found = worker.run_job({})
    worker.stop()
    return found


def test_a_node_worker_overrides_what_ray_has_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "13")  # as Ray would
    one = NodeWorker({"OMP_NUM_THREADS": "1"}, str(tmp_path))
    assert environment_of_child(one, tmp_path, monkeypatch)["OMP_NUM_THREADS"] == "1"
    none = NodeWorker({"OMP_NUM_THREADS": None}, str(tmp_path))
    assert "OMP_NUM_THREADS" not in environment_of_child(none, tmp_path, monkeypatch)


def test_a_node_worker_makes_a_run_and_starts_again_after_its_process_has_died(
    tmp_path: Path, study_cache: Path
) -> None:
    study = open_study(tmp_path / "runs", "one")
    execution = Execution(Workspace(cache=study_cache, device="cpu"), n_jobs=2)
    cell = small_cell(study_cache, 2)
    worker = NodeWorker(worker_variables(2), str(tmp_path / "nowhere"))
    assert "'nothing'" in worker.run_job({"run": {"nothing": 1}})["failed"]
    assert worker.process is not None
    worker.process.kill()
    worker.process.wait()
    with WorkerPool(execution) as pool:
        assert worker.run_job(pool.cell_job(cell, study)) == {}
    worker.stop()
    assert is_complete(cell, study)
    assert worker.run_job({}) == {"ended": 0}


def test_a_node_worker_that_is_stopped_saves_its_run(tmp_path: Path, study_cache: Path) -> None:
    study = open_study(tmp_path / "runs", "one")
    execution = Execution(Workspace(cache=study_cache, device="cpu"), n_jobs=2)
    cell = small_cell(study_cache, 4000)
    worker = NodeWorker(worker_variables(2), str(tmp_path))
    rows = study.root / cell.name / "rows.jsonl"

    def stop() -> None:
        while not rows.exists() or not rows.read_text():
            time.sleep(0.02)
        worker.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with WorkerPool(execution) as pool:
        answer = worker.run_job(pool.cell_job(cell, study))
    stopper.join()
    assert answer["ended"] != 0
    assert list((study.root / cell.name / "checkpoints").glob("step-*"))


def test_a_node_worker_whose_code_is_not_there_says_how_it_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    assert NodeWorker({}, str(tmp_path)).run_job({}) == {"ended": 1}


def test_jobs_have_absolute_paths(
    tmp_path: Path, study_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = open_study(Path("runs"), "one")
    relative = Path(os.path.relpath(study_cache, tmp_path))
    cell = small_cell(relative, 2)
    with WorkerPool(Execution(Workspace(cache=relative, device="cpu"), n_jobs=2)) as pool:
        job = json.loads(json.dumps(pool.cell_job(cell, study)))
        check = cells_check([cell], study.root, "aa", CPU, {})
        node_job = json.loads(json.dumps(pool.node_job(cell, study, check, 3)))
    assert Path(node_job["compile"]["cache"]).is_absolute()
    assert Path(node_job["compile"]["cache"]).samefile(study_cache)
    assert node_job["compile"]["n_threads"] == 3
    assert node_job == {**job, "node_check": check.table, "compile": node_job["compile"]}
    assert job["root"] == str(tmp_path / "runs")
    assert all(Path(text["folder"]).is_absolute() for text in job["texts"])
