"""What workers compile is kept in one place."""

from pathlib import Path

from paribus.design.compiled_cache import (
    INDUCTOR_VARIABLE,
    TRITON_VARIABLE,
    compiled_folders,
)
from paribus.design.worker_pool import WorkerPool
from paribus.workspace import Execution, Workspace


def test_both_compilers_keep_what_they_make_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = compiled_folders(Path("texts"), {})
    assert folders == {
        INDUCTOR_VARIABLE: str(tmp_path / "texts/compiled/inductor"),
        TRITON_VARIABLE: str(tmp_path / "texts/compiled/triton"),
    }


def test_a_folder_of_the_user_stays(tmp_path):
    assert set(compiled_folders(tmp_path, {TRITON_VARIABLE: "/own"})) == {INDUCTOR_VARIABLE}
    own = {TRITON_VARIABLE: "/own", INDUCTOR_VARIABLE: "/own too"}
    assert compiled_folders(tmp_path, own) == {}


def test_workers_are_told_of_it(tmp_path, monkeypatch):
    for variable in (INDUCTOR_VARIABLE, TRITON_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    with WorkerPool(Execution(Workspace(cache=tmp_path, device="cpu"), n_jobs=2)) as pool:
        assert pool.worker_variables == compiled_folders(tmp_path, {})
