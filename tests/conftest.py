"""What every test shares: `gpu` tests are left out without a GPU, and there torch's own
warnings are no errors.
"""

import gc
from pathlib import Path

import pytest
import torch


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


@pytest.fixture(scope="session")
def study_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where studies find their text, built once."""
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(scope="session")
def finished_home(tmp_path_factory: pytest.TempPathFactory, study_cache: Path) -> Path:
    """The runs folder of the little study, run to its end; to be read, or copied and spoilt."""
    from trained_study import train_study

    home = tmp_path_factory.mktemp("finished")
    train_study(home, study_cache)
    return home


@pytest.fixture(scope="session")
def filed_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a user whose study reads files: runs, texts and a cache; to be read, or copied
    and spoilt.
    """
    from shared_studies import train_on_files

    home = tmp_path_factory.mktemp("somebody")
    train_on_files(home / "runs", home / "cache", home / "private" / "texts")
    return home


@pytest.fixture(scope="session")
def served_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that can be talked to; to be read."""
    from running_server import train_runs

    return train_runs(tmp_path_factory.mktemp("served"))
