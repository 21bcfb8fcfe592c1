"""A real Ray cluster of two nodes on this machine: its rows are those of local runs, and what a
lost node had done is kept.
"""

import json
import os
import re
import signal
from collections.abc import Callable, Collection, Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from placed_study import (
    PATIENCE,
    PlacedStudy,
    other_code,
    plain_environment,
    require_equal_runs,
    wait_for_checkpoint,
)
from ray_nodes import RayNodes, process_tree, ray_nodes
from study_notes import NoteTaker
from trained_study import make_small_plan

from paribus.design.cell_run import is_complete
from paribus.design.cells import Cell, reported_cells
from paribus.design.on import ray
from paribus.design.on.ray import RayCluster
from paribus.design.on.ray_worker import NodeWorker
from paribus.record import current_environment, open_study, read_environments
from paribus.watcher import Watcher
from paribus.workspace import Execution, Ray, Workspace

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs ray: make test-cluster"),
]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a folder")
CHANGES = {"arms.reverse": None, "base.training.n_steps": 160, "base.training.row_every": 8}
N_RUNS = 6


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> PlacedStudy:
    return PlacedStudy(tmp_path_factory.mktemp("shared"), CHANGES)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayNodes]:
    with ray_nodes(1) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def local_runs(shared: PlacedStudy) -> dict[str, Path]:
    """Runs of this machine, two at a time."""
    done = shared.run(plain_environment(), "local", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    return shared.runs("local")


def wait_for_owner(
    runs: Path, node: int | None = None, besides: Collection[int] = ()
) -> tuple[Path, int]:
    """A run in the middle and its process, which is one of this node, or any besides some."""

    def is_wanted(run: Path) -> bool:
        owner = owner_of(run)
        if node is None:
            return owner is not None and owner not in besides
        return owner in {process.pid for process in process_tree(node)}

    run = wait_for_checkpoint(runs, is_wanted)
    owner = owner_of(run)
    assert owner is not None
    return run, owner


def owner_of(run: Path) -> int | None:
    """The process that is at a run."""
    return json.loads((run / "lock").read_text() or "{}").get("pid")


def test_a_node_that_is_killed_in_the_middle_loses_nothing(
    shared: PlacedStudy, cluster: RayNodes, local_runs: dict[str, Path]
) -> None:
    address = ("--on", "ray", "--ray-address", cluster.address)
    with (
        cluster.joined() as other,
        shared.driver(cluster.environment(), "killed", *address, "--jobs", "2") as driver,
    ):
        run, _ = wait_for_owner(shared.folder / "killed", other.pid)
        cluster.kill(other)
        assert "finished" not in (run / "state").read_text()
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, said
    assert re.search(r"its worker on \S+ was lost \(.*it goes on elsewhere from its last", said)
    require_equal_runs(shared.runs("killed"), local_runs, N_RUNS)
    assert not list((shared.folder / "killed").glob(".nodes-*"))


def test_an_interrupted_study_is_saved_and_goes_on_locally(
    shared: PlacedStudy, cluster: RayNodes, local_runs: dict[str, Path]
) -> None:
    address = ("--on", "ray", "--ray-address", cluster.address)
    with shared.driver(cluster.environment(), "interrupted", *address, "--jobs", "2") as driver:
        run, _ = wait_for_owner(shared.folder / "interrupted")
        driver.send_signal(signal.SIGTERM)
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 75, said
    assert "interrupted; the same command resumes" in said
    assert "finished" not in (run / "state").read_text()
    again = shared.run(plain_environment(), "interrupted", "--jobs", "2")
    assert again.returncode == 0, again.stderr
    require_equal_runs(shared.runs("interrupted"), local_runs, N_RUNS)


def test_a_node_with_other_code_is_refused(
    shared: PlacedStudy, cluster: RayNodes, tmp_path: Path
) -> None:
    address = ("--on", "ray", "--ray-address", cluster.address)
    with cluster.joined({"PYTHONPATH": str(other_code(tmp_path))}):
        done = shared.run(cluster.environment(), "refused", *address, "--jobs", "2")
    assert done.returncode == 1, done.stdout
    assert re.search(
        r"the node \S+ has other code: code is \w{64} there and \w{64} on", done.stderr
    )
    assert "install the same version of paribus on every node" in done.stderr
    assert not shared.runs("refused")


@needs_root
def test_a_node_that_sees_another_folder_is_refused(shared: PlacedStudy, cluster: RayNodes) -> None:
    runs = shared.folder / "unshared"
    runs.mkdir()
    mount = f'mount -t tmpfs none {runs} && exec "$@"'
    address = ("--on", "ray", "--ray-address", cluster.address)
    with cluster.joined(prefix=["unshare", "--mount", "sh", "-c", mount, "sh"]):
        done = shared.run(cluster.environment(), "unshared", *address, "--jobs", "2")
    assert done.returncode == 1, done.stdout
    assert re.search(r"the node \S+ does not see the folder of runs of", done.stderr)
    assert f"mount the same folder at {runs} on every node" in done.stderr
    assert not shared.runs("unshared")


@needs_root
def test_a_node_with_a_full_disk_is_refused(
    shared: PlacedStudy, cluster: RayNodes, tmp_path: Path
) -> None:
    mount = f'mount -t tmpfs -o size=1m none {tmp_path} && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    address = ("--on", "ray", "--ray-address", cluster.address)
    with cluster.joined({"TMPDIR": str(tmp_path)}, prefix):
        done = shared.run(cluster.environment(), "full", *address, "--jobs", "2")
    assert done.returncode == 1, done.stdout
    assert re.search(
        rf"has 1 MB free in its temporary folder, {tmp_path}, and a run needs 67 MB", done.stderr
    )
    assert not shared.runs("full")


def test_nodes_that_join_later_are_used_if_they_are_fit(
    shared: PlacedStudy, cluster: RayNodes, tmp_path: Path
) -> None:
    address = ("--on", "ray", "--ray-address", cluster.address, "--jobs", "2")
    long = ("--set", "base.training.n_steps=100000")
    with shared.driver(cluster.environment(), "later", *address, *long) as driver:
        wait_for_owner(shared.folder / "later")
        assert driver.stdout is not None
        with cluster.joined({"PYTHONPATH": str(other_code(tmp_path))}):
            lines = iter(driver.stdout.readline, "")
            note = next(line for line in lines if "other code" in line)
        with cluster.joined() as other:
            wait_for_owner(shared.folder / "later", other.pid)
            driver.send_signal(signal.SIGTERM)
            driver.communicate(timeout=PATIENCE)
    assert note.rstrip().endswith("; this node is not used")
    assert driver.returncode == 75


def test_a_node_that_is_not_fit_after_the_beginning_does_not_end_the_study(
    cluster: RayNodes, study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    plan = make_small_plan(study_cache, {"base.training.n_steps": 2}, n_jobs=2)
    cells = reported_cells(plan, dict.fromkeys([arm.name for arm in plan.arms], 0.05))[:2]
    study = open_study(tmp_path / "runs", "study")
    workspace = Workspace(study.root, cache=study_cache, device="cpu")
    execution = Execution(workspace, n_jobs=2, on=Ray(cluster.address))
    watcher = NoteTaker()
    with RayCluster(execution) as scheduler:
        assert scheduler.run_cells(cells[:1], study, watcher) == {}
        with cluster.joined({"PYTHONPATH": str(other_code(tmp_path))}):
            assert scheduler.run_cells(cells[1:], study, watcher) == {}
    assert all(is_complete(cell, study) for cell in cells)
    (note,) = watcher.notes
    assert "has other code" in note
    assert note.endswith("; this node is not used")


class PlaceEnder(NoteTaker):
    """Remembers notes and cells, and ends the actor of somebody else at the first note."""

    def __init__(self, end_place: Callable[[], None]) -> None:
        super().__init__()
        self.end_place = end_place
        self.events: list[str] = []

    def note(self, text: str) -> None:
        super().note(text)
        self.events.append("note")
        self.end_place()

    def begin(self, cell: Cell) -> Watcher:
        self.events.append(f"{cell} begins")
        return super().begin(cell)

    def end(self, cell: Cell, fault: str | None) -> None:
        self.events.append(f"{cell} ends")
        super().end(cell, fault)


def test_a_cell_that_waits_for_a_busy_cluster_is_noted_once_and_begins_when_it_has_room(
    cluster: RayNodes, study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ray, "WAIT_SECONDS", 2.0)
    plan = make_small_plan(study_cache, {"base.training.n_steps": 2}, n_jobs=2)
    cells = reported_cells(plan, dict.fromkeys([arm.name for arm in plan.arms], 0.05))[:2]
    study = open_study(tmp_path / "runs", "study")
    workspace = Workspace(study.root, cache=study_cache, device="cpu")
    with RayCluster(Execution(workspace, n_jobs=2, on=Ray(cluster.address))) as scheduler:
        other = scheduler.ray.remote(NodeWorker).options(num_cpus=1)
        place = other.remote({}, str(tmp_path))
        scheduler.ray.get(place.__ray_ready__.remote())
        watcher = PlaceEnder(lambda: scheduler.ray.kill(place))
        assert scheduler.run_cells(cells, study, watcher) == {}
    assert all(is_complete(cell, study) for cell in cells)
    assert watcher.notes == [
        "1 of 1 cells wait until the Ray cluster has room for them: a run takes one CPU for each"
        " of its threads, 1 in all; the cluster has 1 CPU, of which 0 CPU are free now"
    ]
    expected = ["note"]
    for cell in cells:
        expected += [f"{cell} begins", f"{cell} ends"]
    assert watcher.events == expected


def test_a_cell_that_loses_its_workers_again_and_again_has_failed(
    shared: PlacedStudy, cluster: RayNodes
) -> None:
    address = ("--on", "ray", "--ray-address", cluster.address, "--jobs", "2")
    owners: set[int] = set()
    with shared.driver(cluster.environment(), "lossy", *address) as driver:
        for _ in range(3):
            _, owner = wait_for_owner(shared.folder / "lossy", besides=owners)
            owners.add(owner)
            actor = psutil.Process(owner).parent()
            assert actor is not None
            actor.kill()
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 4, said
    assert "seed 1: it has lost 3 workers, the last one on " in said
    assert len(re.findall(r"it goes on elsewhere from its last checkpoint", said)) == 2
    again = shared.run(plain_environment(), "lossy", "--jobs", "2")
    assert again.returncode == 0, again.stderr


def test_a_run_that_no_node_has_room_for_is_refused(shared: PlacedStudy, cluster: RayNodes) -> None:
    # two, for MKL lets torch have no more threads than the machine has cores
    environment = cluster.environment({"OMP_NUM_THREADS": "2"})
    done = shared.run(
        environment, "large", "--on", "ray", "--ray-address", cluster.address, "--jobs", "1"
    )
    assert done.returncode == 1, done.stdout
    assert "no node of the Ray cluster has room for a run, which takes one CPU for" in done.stderr
    assert "each of its threads, 2 in all; add such a node, or change --jobs" in done.stderr


def test_no_cluster_at_an_address_is_said(shared: PlacedStudy) -> None:
    address = ("--on", "ray", "--ray-address", "127.0.0.1:1")
    done = shared.run(plain_environment(), "nowhere", *address)
    assert done.returncode == 1
    assert "no Ray cluster answers at 127.0.0.1:1: " in done.stderr


def test_a_local_cluster_gives_a_run_all_threads_as_local_runs_have(shared: PlacedStudy) -> None:
    environment = {**plain_environment(), "RAY_TMPDIR": "/tmp"}
    done = shared.run(environment, "alone", "--on", "ray", "--set", "base.training.n_steps=2")
    assert done.returncode == 0, done.stderr
    here = shared.run(environment, "alone-local", "--set", "base.training.n_steps=2")
    assert here.returncode == 0, here.stderr
    assert (shared.folder / "cache/compiled/inductor").is_dir()  # workers on nodes share it
    runs = shared.runs("alone")
    require_equal_runs(runs, shared.runs("alone-local"), N_RUNS)
    recorded = read_environments(next(iter(runs.values())))[-1]
    assert recorded["omp_num_threads"] is None
    assert recorded["code"] == current_environment(1, "cpu")["code"]
