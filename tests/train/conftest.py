"""Tiny runs by the command line, and one that nothing befell."""

from pathlib import Path

import pytest
from train_shell import TrainShell


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def shell(tmp_path: Path, texts: Path) -> TrainShell:
    return TrainShell(tmp_path, texts)


@pytest.fixture(scope="session")
def whole(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing befell."""
    undisturbed = TrainShell(tmp_path_factory.mktemp("whole"), texts)
    undisturbed.write_spec()
    undisturbed.train_or_fail()
    return undisturbed.home / "run"
