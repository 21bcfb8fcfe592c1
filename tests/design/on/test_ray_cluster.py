"""A real Ray cluster of two nodes on this machine: its rows are those of local runs, and what a
lost node had done is kept.
"""

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from placed_study import (
    PATIENCE,
    PlacedStudy,
    plain_environment,
    require_equal_runs,
    wait_for_checkpoint,
)
from ray_nodes import SOURCE, RayNodes, process_tree, ray_nodes

from paribus.record import current_environment, read_environments

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


def wait_for_run_of(runs: Path, node: int) -> Path:
    """A run in the middle, of a process of this node."""

    def is_of_node(run: Path) -> bool:
        owner = json.loads((run / "lock").read_text() or "{}")
        return owner.get("pid") in {process.pid for process in process_tree(node)}

    return wait_for_checkpoint(runs, is_of_node)


def test_a_node_that_is_killed_in_the_middle_loses_nothing(
    shared: PlacedStudy, cluster: RayNodes, local_runs: dict[str, Path]
) -> None:
    address = ("--on", "ray", "--ray-address", cluster.address)
    with (
        cluster.joined() as other,
        shared.driver(cluster.environment(), "killed", *address, "--jobs", "2") as driver,
    ):
        run = wait_for_run_of(shared.folder / "killed", other.pid)
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
        run = wait_for_checkpoint(shared.folder / "interrupted", lambda _: True)
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
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    schedule = tmp_path / "src/paribus/train/schedule.py"
    schedule.write_text(schedule.read_text() + "\n\nANOTHER_VALUE = 7\n")
    address = ("--on", "ray", "--ray-address", cluster.address)
    with cluster.joined({"PYTHONPATH": str(tmp_path / "src")}):
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


def test_no_cluster_at_an_address_is_said(shared: PlacedStudy) -> None:
    address = ("--on", "ray", "--ray-address", "127.0.0.1:1")
    done = shared.run(plain_environment(), "nowhere", *address)
    assert done.returncode == 1
    assert "--ray-address is 127.0.0.1:1, where no Ray cluster answers" in done.stderr


def test_a_local_cluster_gives_a_run_all_threads_as_local_runs_have(shared: PlacedStudy) -> None:
    environment = {**plain_environment(), "RAY_TMPDIR": "/tmp"}
    done = shared.run(environment, "alone", "--on", "ray", "--set", "base.training.n_steps=2")
    assert done.returncode == 0, done.stderr
    here = shared.run(environment, "alone-local", "--set", "base.training.n_steps=2")
    assert here.returncode == 0, here.stderr
    runs = shared.runs("alone")
    require_equal_runs(runs, shared.runs("alone-local"), N_RUNS)
    recorded = read_environments(next(iter(runs.values())))[-1]
    assert recorded["omp_num_threads"] is None
    assert recorded["code"] == current_environment(1, "cpu")["code"]
