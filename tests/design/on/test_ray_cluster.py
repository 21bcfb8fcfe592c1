"""A real Ray cluster of two nodes on this machine: its rows are those of local runs, and what a
lost node had done is kept.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from ray_nodes import SOURCE, RayNodes, process_tree, ray_nodes
from train_shell import rows_without_seconds
from trained_study import design_table

from paribus.record import current_environment, read_environments
from paribus.record.disk import file_sha256
from paribus.report.toml_text import inline_toml

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs ray: make test-cluster"),
]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a folder")
CHANGES = {"arms.reverse": None, "base.training.n_steps": 160, "base.training.row_every": 8}
N_RUNS = 6
PATIENCE = 300  # seconds


class Shared:
    """A folder that every node sees: the design, the cache, and runs of several places."""

    def __init__(self, folder: Path):
        self.folder = folder
        lines = [f"{name} = {inline_toml(value)}" for name, value in design_table(CHANGES).items()]
        (folder / "study.toml").write_text("\n".join(lines) + "\n")

    def command(self, runs: str, *options: str) -> list[str]:
        command = [sys.executable, "-m", "paribus", "run", "study.toml", "--device", "cpu"]
        return [*command, "--runs", runs, "--cache", "cache", *options]

    def run(
        self, environment: dict[str, str], runs: str, *options: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(runs, *options),
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    @contextmanager
    def driver(
        self, environment: dict[str, str], runs: str, *options: str
    ) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on in the background, and is killed if the test does not wait."""
        with subprocess.Popen(
            self.command(runs, *options),
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def runs(self, name: str) -> dict[str, Path]:
        folders = {
            path.parent.name: path.parent for path in (self.folder / name).glob("*/spec.json")
        }
        return dict(sorted(folders.items()))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    return Shared(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayNodes]:
    with ray_nodes(1) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def local_runs(shared: Shared) -> dict[str, Path]:
    """Runs of this machine, two at a time."""
    done = shared.run(plain_environment(), "local", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    return shared.runs("local")


def plain_environment() -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**inherited, "PYTHONPATH": str(SOURCE)}


def require_equal_runs(runs: dict[str, Path], others: dict[str, Path]) -> None:
    """Rows, environments, last weights and answers are the same, bit for bit."""
    assert list(runs) == list(others)
    assert len(runs) == N_RUNS
    for name, run in runs.items():
        other = others[name]
        assert rows_without_seconds(run) == rows_without_seconds(other)
        assert read_environments(run) == read_environments(other)
        assert last_weights(run) == last_weights(other)
        assert answers(run) == answers(other)


def last_weights(run: Path) -> tuple[str, str]:
    path = max((run / "checkpoints").glob("step-*/weights.safetensors"))
    return path.parent.name, file_sha256(path)


def answers(run: Path) -> dict[str, list[str]]:
    """What a run answered, item by item, without the line that says when."""
    return {
        path.name: path.read_text().splitlines()[1:]
        for path in sorted((run / "evaluations").iterdir())
    }


def wait_for_checkpoint(
    runs: Path, node: int | None = None, besides: Collection[int] = ()
) -> tuple[Path, int]:
    """A run in the middle and its process, which is one of this node, or any besides some."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        numbers = None if node is None else {process.pid for process in process_tree(node)}
        for checkpoint in runs.glob("*/checkpoints/step-*"):
            run = checkpoint.parents[1]
            owner = json.loads((run / "lock").read_text() or "{}").get("pid")
            is_open = "finished" not in (run / "state").read_text()
            is_asked = owner in numbers if numbers is not None else owner not in besides
            if is_open and is_asked and owner is not None:
                return run, owner
        time.sleep(0.02)
    raise AssertionError("no run came so far")


def test_a_node_that_is_killed_in_the_middle_loses_nothing(
    shared: Shared, cluster: RayNodes, local_runs: dict[str, Path]
) -> None:
    address = ("--on", "ray", "--ray-address", cluster.address)
    with (
        cluster.joined() as other,
        shared.driver(cluster.environment(), "killed", *address, "--jobs", "2") as driver,
    ):
        run, _ = wait_for_checkpoint(shared.folder / "killed", other.pid)
        cluster.kill(other)
        assert "finished" not in (run / "state").read_text()
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, said
    assert re.search(r"its worker on \S+ was lost \(.*it goes on elsewhere from its last", said)
    require_equal_runs(shared.runs("killed"), local_runs)
    assert not list((shared.folder / "killed").glob(".nodes-*"))


def test_an_interrupted_study_is_saved_and_goes_on_locally(
    shared: Shared, cluster: RayNodes, local_runs: dict[str, Path]
) -> None:
    address = ("--on", "ray", "--ray-address", cluster.address)
    with shared.driver(cluster.environment(), "interrupted", *address, "--jobs", "2") as driver:
        run, _ = wait_for_checkpoint(shared.folder / "interrupted")
        driver.send_signal(signal.SIGTERM)
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 75, said
    assert "interrupted; the same command resumes" in said
    assert "finished" not in (run / "state").read_text()
    again = shared.run(plain_environment(), "interrupted", "--jobs", "2")
    assert again.returncode == 0, again.stderr
    require_equal_runs(shared.runs("interrupted"), local_runs)


def test_a_node_with_other_code_is_refused(
    shared: Shared, cluster: RayNodes, tmp_path: Path
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
def test_a_node_that_sees_another_folder_is_refused(shared: Shared, cluster: RayNodes) -> None:
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
    shared: Shared, cluster: RayNodes, tmp_path: Path
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


def other_code(folder: Path) -> Path:
    """A copy of the source whose code is another."""
    shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    schedule = folder / "src/paribus/train/schedule.py"
    schedule.write_text(schedule.read_text() + "\n\nANOTHER_VALUE = 7\n")
    return folder / "src"


def test_nodes_that_join_later_are_used_if_they_are_fit(
    shared: Shared, cluster: RayNodes, tmp_path: Path
) -> None:
    address = ("--on", "ray", "--ray-address", cluster.address, "--jobs", "2")
    long = ("--set", "base.training.n_steps=100000")
    with shared.driver(cluster.environment(), "later", *address, *long) as driver:
        wait_for_checkpoint(shared.folder / "later")
        assert driver.stdout is not None
        with cluster.joined({"PYTHONPATH": str(other_code(tmp_path))}):
            lines = iter(driver.stdout.readline, "")
            note = next(line for line in lines if "other code" in line)
        with cluster.joined() as other:
            wait_for_checkpoint(shared.folder / "later", other.pid)
            driver.send_signal(signal.SIGTERM)
            driver.communicate(timeout=PATIENCE)
    assert note.rstrip().endswith("; this node is not used")
    assert driver.returncode == 75


def test_a_cell_that_loses_its_workers_again_and_again_has_failed(
    shared: Shared, cluster: RayNodes
) -> None:
    address = ("--on", "ray", "--ray-address", cluster.address, "--jobs", "2")
    owners: set[int] = set()
    with shared.driver(cluster.environment(), "lossy", *address) as driver:
        for _ in range(3):
            _, owner = wait_for_checkpoint(shared.folder / "lossy", besides=owners)
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


def test_a_run_that_no_node_has_room_for_is_refused(shared: Shared, cluster: RayNodes) -> None:
    environment = cluster.environment({"OMP_NUM_THREADS": "3"})
    done = shared.run(
        environment, "large", "--on", "ray", "--ray-address", cluster.address, "--jobs", "1"
    )
    assert done.returncode == 1, done.stdout
    assert "no node of the Ray cluster has room for a run, which takes one CPU for" in done.stderr
    assert "each of its threads, 3 in all; add such a node, or change --jobs" in done.stderr


def test_no_cluster_at_an_address_is_said(shared: Shared) -> None:
    address = ("--on", "ray", "--ray-address", "127.0.0.1:1")
    done = shared.run(plain_environment(), "nowhere", *address)
    assert done.returncode == 1
    assert "no Ray cluster answers at 127.0.0.1:1: " in done.stderr


def test_a_local_cluster_gives_a_run_all_threads_as_local_runs_have(shared: Shared) -> None:
    environment = {**plain_environment(), "RAY_TMPDIR": "/tmp"}
    done = shared.run(environment, "alone", "--on", "ray", "--set", "base.training.n_steps=2")
    assert done.returncode == 0, done.stderr
    here = shared.run(environment, "alone-local", "--set", "base.training.n_steps=2")
    assert here.returncode == 0, here.stderr
    runs = shared.runs("alone")
    require_equal_runs(runs, shared.runs("alone-local"))
    recorded = read_environments(next(iter(runs.values())))[-1]
    assert recorded["omp_num_threads"] is None
    assert recorded["code"] == current_environment(1, "cpu")["code"]
