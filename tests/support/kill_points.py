"""Kill -9 at every operation on files: `python kill_points.py ROOT {save|cut|open}`.

A child is forked for each, counts the interpreter's audit events and kills itself at the n-th, for
every n until it gets through; after each, what it left must be what was there before or what it was
to write. Prints how many points there were and at how many of them a leftover was seen.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from paribus.record import (
    commit_checkpoint,
    cut_rows,
    latest_checkpoint,
    open_run_folder,
    read_rows,
    read_stages,
)
from paribus.record.checkpoints import Retention
from paribus.record.disk import remove_leftovers

EVENTS = {
    "open",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.truncate",
    "os.listdir",
    "os.scandir",
}


def write_checkpoint_files(folder: Path, text: str) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "weights.bin").write_bytes(text.encode() * 1000)
    (folder / "counters.json").write_text(text)


def is_killed_at(place: int, work: Callable[[], object]) -> bool:
    """Was a child doing `work` killed at its `place`-th event, or had it finished before?"""
    pid = os.fork()
    if pid == 0:
        seen = [0]

        def count(event: str, _: object) -> None:
            if event in EVENTS:
                seen[0] += 1
                if seen[0] == place:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        work()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def kill_at_every_point(
    prepare: Callable[[], None], work: Callable[[], object], check: Callable[[], bool]
) -> None:
    n_points = n_left = 0
    while True:
        prepare()
        killed = is_killed_at(n_points + 1, work)
        n_left += check()
        if not killed:
            break
        n_points += 1
    print(n_points, n_left)


def check_save(root: Path) -> None:
    start = root.with_name("start")
    commit_checkpoint(
        start,
        2,
        lambda folder: write_checkpoint_files(folder, "two"),
        score=2.0,
        retention=Retention(keep_last=2),
    )
    commit_checkpoint(
        start,
        3,
        lambda folder: write_checkpoint_files(folder, "three"),
        score=3.0,
        retention=Retention(keep_last=2),
    )

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(start, root)

    def check() -> bool:
        found = latest_checkpoint(root)
        assert not found.skipped, found
        assert found.checkpoint, os.listdir(root)
        text = {3: "three", 5: "five"}[found.checkpoint.step]
        assert (found.checkpoint.folder / "counters.json").read_text() == text
        left = remove_leftovers(root)
        assert latest_checkpoint(root) == found
        return bool(left)

    kill_at_every_point(
        prepare,
        lambda: commit_checkpoint(
            root,
            5,
            lambda folder: write_checkpoint_files(folder, "five"),
            score=1.0,
            retention=Retention(keep_last=1),
        ),
        check,
    )


def check_cut(root: Path) -> None:
    path = root / "rows.jsonl"

    def prepare() -> None:
        root.mkdir(exist_ok=True)
        path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')

    def check() -> bool:
        assert [row["step"] for row in read_rows(path).rows] in ([1, 2], [1, 2, 3])
        return bool(remove_leftovers(root))

    kill_at_every_point(prepare, lambda: cut_rows(path, 2), check)


def check_open(root: Path) -> None:
    stages = [{"name": "a"}, {"name": "b"}]

    def open_run() -> None:
        with open_run_folder(root, stages, {"code": "one"}, name="r"):
            pass

    def check() -> bool:
        with open_run_folder(root, stages, {"code": "one"}, name="r") as run:
            assert read_stages(run.folder) == stages
        return bool(run.leftovers)

    kill_at_every_point(lambda: shutil.rmtree(root, ignore_errors=True), open_run, check)


if __name__ == "__main__":
    {"save": check_save, "cut": check_cut, "open": check_open}[sys.argv[2]](Path(sys.argv[1]))
