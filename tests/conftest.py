"""What every test shares: `gpu` tests are left out without a GPU, and there torch's own
warnings are no errors.
"""

import fcntl
import gc
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

gc.disable()  # until all is imported, for libraries make no garbage

import pytest  # noqa: E402
import torch  # noqa: E402
from memory_limit import HAS_GPU, MAX_TEST_BYTES  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(
                pytest.mark.filterwarnings("default")
            )  # compiling on CUDA warns of torch's own affairs
            item.add_marker(
                pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
            )


def pytest_collection_finish() -> None:
    gc.freeze()  # libraries and tests stay to the end: no collection need walk them again
    gc.enable()


@pytest.fixture(autouse=True)
def limited_memory() -> Iterator[None]:
    """A test that would take all memory of the machine fails alone, and so do its processes."""
    if HAS_GPU:
        yield
        return
    status = Path("/proc/self/status").read_text()
    has_bytes = int(status.partition("VmData:")[2].split()[0]) * 1024
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (has_bytes + MAX_TEST_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def shared_folder(
    factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], object]
) -> Path:
    """A folder of this session that the first process of xdist fills, and all of them read."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, is_filled = root / name, root / f"{name}.filled"
    with open(root / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_filled.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed to fill it
            folder.mkdir()
            fill(folder)
            is_filled.touch()
    return folder


@pytest.fixture(scope="session")
def study_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where studies find their text, built once."""
    return shared_folder(tmp_path_factory, "texts", lambda folder: None)


@pytest.fixture(scope="session")
def finished_home(tmp_path_factory: pytest.TempPathFactory, study_cache: Path) -> Path:
    """The runs folder of the little study, run to its end; to be read, or copied and spoilt.

    It is judged by the third edition: three runs of a dozen steps scatter so widely that the fourth
    finds heaps in them, and gives no interval.
    """
    from trained_study import train_study

    def train(home: Path) -> None:
        study = train_study(home, study_cache)
        study.write_plan({**study.read_plan(), "edition": 3})

    return shared_folder(tmp_path_factory, "finished", train)


@pytest.fixture(scope="session")
def filed_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a user whose study reads files: runs, texts and a cache; to be read, or copied
    and spoilt.
    """
    from shared_studies import train_on_files

    return shared_folder(
        tmp_path_factory,
        "somebody",
        lambda home: train_on_files(home / "runs", home / "cache", home / "private" / "texts"),
    )


@pytest.fixture(scope="session")
def served_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that can be talked to; to be read."""
    from running_server import train_runs

    return shared_folder(tmp_path_factory, "served", train_runs) / "runs"
