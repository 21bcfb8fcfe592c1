"""A GPU shared through MPS: the daemon is started for the workers, and stopped with them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paribus.design import mps
from paribus.design.mps import CONTROL, LOG_VARIABLE, PIPE_VARIABLE, shared_gpu

# A program in the daemon's place: it writes down how it was called and what it was told.
# Asked for its servers, it answers where a file says that it runs.
PROGRAM = """#!/bin/sh
said="$(cat)"
echo "$* $said" >> "{told}"
test "$said" = get_server_list && exec test -e "$CUDA_MPS_PIPE_DIRECTORY/running"
test -d "$CUDA_MPS_PIPE_DIRECTORY" && test -d "$CUDA_MPS_LOG_DIRECTORY" && exit {status}
"""


@pytest.fixture
def told(tmp_path, monkeypatch) -> Path:
    """What the program was told; it does as it is told."""
    return install_program(tmp_path, monkeypatch, status=0)


def install_program(tmp_path, monkeypatch, status: int) -> Path:
    told, program = tmp_path / "told", tmp_path / CONTROL
    program.write_text(PROGRAM.format(told=told, status=status))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(PIPE_VARIABLE, raising=False)
    monkeypatch.setattr(mps, "USUAL_PIPES", tmp_path / "nobody listens")
    return told


def test_a_daemon_of_our_own_is_started_and_stopped(told):
    with shared_gpu() as variables:
        assert told.read_text() == "-d \n"
        folders = [Path(variables[PIPE_VARIABLE]), Path(variables[LOG_VARIABLE])]
        assert all(folder.is_dir() for folder in folders)
    assert told.read_text() == "-d \n quit\n"
    assert not any(folder.exists() for folder in folders)


def test_it_is_stopped_when_a_study_is_interrupted(told):
    with pytest.raises(SystemExit), shared_gpu():
        raise SystemExit(75)
    assert told.read_text().endswith("quit\n")


def test_a_daemon_that_runs_already_is_used_as_it_is(told, tmp_path, monkeypatch):
    (tmp_path / "control").touch()
    (tmp_path / "running").touch()
    monkeypatch.setenv(PIPE_VARIABLE, str(tmp_path))
    with shared_gpu() as variables:
        assert variables == {}
    assert told.read_text() == " get_server_list\n"


def test_one_that_was_killed_is_replaced(told, tmp_path, monkeypatch):
    (tmp_path / "control").touch()  # the pipe that it left behind
    monkeypatch.setenv(PIPE_VARIABLE, str(tmp_path))
    with shared_gpu() as variables:
        assert variables[PIPE_VARIABLE] != str(tmp_path)
    assert told.read_text() == " get_server_list\n-d \n quit\n"


def test_one_that_does_not_start_is_done_without(tmp_path, monkeypatch):
    told = install_program(tmp_path, monkeypatch, status=1)
    with shared_gpu() as variables:
        assert variables == {}
    assert told.read_text() == "-d \n"


def test_where_none_is_installed_nothing_is_set(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with shared_gpu() as variables:
        assert variables == {}


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which(CONTROL) is None, reason=f"{CONTROL} is not installed")
def test_processes_compute_the_same_through_mps():
    """Two processes at once through a real daemon, and one without."""
    program = (
        "import torch; torch.manual_seed(0); a = torch.randn(512, 512, device='cuda');"
        "print((a @ a).sum().item())"
    )
    command = [sys.executable, "-c", program]
    alone = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with shared_gpu() as variables:
        assert variables
        environment = {**os.environ, **variables}
        both = [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        assert [process.communicate()[0] for process in both] == [alone, alone]
