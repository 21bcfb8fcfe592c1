"""What workers compile is kept in one place, and they share the cores."""

from pathlib import Path

from paribus.design.compiled_cache import THREADS_VARIABLE, TRITON_VARIABLE, compile_variables
from paribus.design.on.local import WorkerPool
from paribus.train.compile_turns import COMPILED_FOLDER_VARIABLE
from paribus.workspace import Execution, Workspace


def test_both_compilers_keep_what_they_make_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    assert compile_variables(Path("texts"), 6, {}) == {
        COMPILED_FOLDER_VARIABLE: str(tmp_path / "texts/compiled/inductor"),
        TRITON_VARIABLE: str(tmp_path / "texts/compiled/triton"),
        THREADS_VARIABLE: "2",
    }
    assert compile_variables(Path("texts"), 40, {})[THREADS_VARIABLE] == "1"


def test_what_the_user_has_set_stays(tmp_path):
    own = {TRITON_VARIABLE: "/own", THREADS_VARIABLE: "3"}
    assert set(compile_variables(tmp_path, 2, own)) == {COMPILED_FOLDER_VARIABLE}
    assert compile_variables(tmp_path, 2, {**own, COMPILED_FOLDER_VARIABLE: "/own too"}) == {}


def test_workers_are_told_of_it(tmp_path, monkeypatch):
    for variable in (COMPILED_FOLDER_VARIABLE, TRITON_VARIABLE, THREADS_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    with WorkerPool(Execution(Workspace(cache=tmp_path, device="cpu"), n_jobs=2)) as pool:
        assert pool.worker_variables == compile_variables(tmp_path, 2, {})
