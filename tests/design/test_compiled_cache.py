"""What workers compile is kept in one place, and they share the cores."""

import errno
import fcntl
import getpass
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from torch._inductor.runtime import cache_dir_utils

from paribus.design import worker
from paribus.design.compiled_cache import (
    THREADS_VARIABLE,
    TRITON_VARIABLE,
    CompileSettings,
    compile_threads,
    compile_variables,
)
from paribus.design.on.local import WorkerPool
from paribus.train.compile_turns import COMPILED_FOLDER_VARIABLE
from paribus.workspace import Execution, Workspace

ALL = (COMPILED_FOLDER_VARIABLE, TRITON_VARIABLE, THREADS_VARIABLE)


def shared_variables(cache: Path, n_threads: int) -> dict[str, str]:
    return {
        COMPILED_FOLDER_VARIABLE: str(cache / "compiled/inductor"),
        TRITON_VARIABLE: str(cache / "compiled/triton"),
        THREADS_VARIABLE: str(n_threads),
    }


def test_both_compilers_keep_what_they_make_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert compile_variables(Path("texts"), 2, {}) == shared_variables(tmp_path / "texts", 2)


def test_workers_of_a_machine_share_its_cores() -> None:
    assert [compile_threads(16, n_places) for n_places in (1, 6, 40)] == [16, 2, 1]
    assert compile_threads(0, 0) == 1


def test_what_the_user_has_set_stays(tmp_path: Path) -> None:
    own = {TRITON_VARIABLE: "/own", THREADS_VARIABLE: "3"}
    assert set(compile_variables(tmp_path, 2, own)) == {COMPILED_FOLDER_VARIABLE}
    assert compile_variables(tmp_path, 2, {**own, COMPILED_FOLDER_VARIABLE: "/own too"}) == {}


@pytest.mark.parametrize("user", ["someone", "WORK\\someone", None])  # one as in a domain
def test_folders_that_torch_sets_when_it_compiles_are_not_what_the_user_has_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str | None
) -> None:
    for name in ALL:
        monkeypatch.setenv(name, "")  # torch writes to it below; it is put back in the end
        monkeypatch.delenv(name)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if user is None:
        monkeypatch.setattr(getpass, "getuser", nameless)
    else:
        monkeypatch.setenv("LOGNAME", user)
    cache_dir_utils.cache_dir()  # as torch calls it whenever it compiles
    monkeypatch.setenv(TRITON_VARIABLE, cache_dir_utils.triton_cache_dir(7))  # as on a GPU
    assert Path(os.environ[COMPILED_FOLDER_VARIABLE]).parent == tmp_path
    cache = tmp_path / "cache"
    cache.mkdir()
    settings = CompileSettings.of(cache, 2, os.environ)
    assert settings.user_variables == {}
    assert compile_variables(cache, 2, os.environ) == shared_variables(cache, 2)
    # also on a node that has inherited them
    assert settings.node_variables(os.environ) == shared_variables(cache, 2)


def nameless() -> str:
    raise OSError("No username set in the environment")


def test_a_folder_of_the_user_beside_that_of_torch_stays(tmp_path: Path) -> None:
    own = {COMPILED_FOLDER_VARIABLE: str(Path(tempfile.gettempdir()) / "torchinductor_own_study")}
    assert set(compile_variables(tmp_path, 2, own)) == {TRITON_VARIABLE, THREADS_VARIABLE}
    with_triton = {**own, TRITON_VARIABLE: f"{own[COMPILED_FOLDER_VARIABLE]}/triton/0"}
    assert CompileSettings.of(tmp_path, 2, with_triton).user_variables == own


def test_workers_of_this_machine_are_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ALL:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    with WorkerPool(Execution(Workspace(cache=tmp_path, device="cpu"), n_jobs=2)) as pool:
        assert pool.worker_variables == compile_variables(tmp_path, 3, {})


def test_a_worker_on_a_node_uses_the_cache_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ALL:
        monkeypatch.setenv(variable, "")
    settings = CompileSettings.of(tmp_path, 5, os.environ)
    for _ in range(2):  # a worker that stays is told with every job
        assert worker._run_job(json.dumps({"compile": settings.table})) == {}
        assert {name: os.environ[name] for name in ALL} == shared_variables(tmp_path, 5)
    assert (tmp_path / "compiled/inductor").is_dir()


def test_what_is_set_on_a_node_stays_and_then_what_is_set_for_the_driver(tmp_path: Path) -> None:
    driver = {TRITON_VARIABLE: "/driver", THREADS_VARIABLE: "11", "HOME": "/home"}
    settings = CompileSettings.of(tmp_path, 5, driver)
    assert settings.user_variables == {TRITON_VARIABLE: "/driver", THREADS_VARIABLE: "11"}
    assert settings.node_variables({THREADS_VARIABLE: "13"}) == {
        COMPILED_FOLDER_VARIABLE: str(tmp_path / "compiled/inductor"),
        TRITON_VARIABLE: "/driver",
    }


def test_a_node_that_does_not_see_the_cache_keeps_what_it_compiles_itself(tmp_path: Path) -> None:
    settings = CompileSettings.of(tmp_path / "elsewhere", 5, {})
    assert settings.node_variables({}) == {THREADS_VARIABLE: "5"}
    assert not list(tmp_path.iterdir())


def test_a_cache_in_which_no_folder_can_be_made_is_not_shared(tmp_path: Path) -> None:
    (tmp_path / "compiled").write_text("no folder")
    settings = CompileSettings.of(tmp_path, 5, {})
    assert settings.node_variables({}) == {THREADS_VARIABLE: "5"}


def test_a_cache_without_locks_is_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    settings = CompileSettings.of(tmp_path, 5, {})
    assert settings.node_variables({}) == {THREADS_VARIABLE: "5"}
