import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record import (
    Run,
    existing_run_folder,
    is_locked,
    named_folder,
    open_run_folder,
    read_environments,
    read_rows,
    read_stages,
    read_state,
    run_address,
)
from paribus.record.disk import json_bytes
from paribus.record.manifest import write_manifest

STAGES = [{"name": "pretrain", "seed": 3}]
HERE = {"torch": "2.11", "n_threads": 2}
THERE = {"torch": "2.12", "n_threads": 2}


def fill(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(b"weights")


def test_a_run_folder_is_called_by_its_address_and_holds_all_it_should(tmp_path: Path):
    with open_run_folder(tmp_path / "runs", STAGES, HERE) as run:
        assert run.folder == tmp_path / "runs" / run_address(STAGES)[:16]
        assert (run.address, run.previous_state, run.leftovers, run.environment_changes) == (
            run_address(STAGES),
            None,
            (),
            {},
        )
        assert run.latest_checkpoint() == (None, ())
        rows, cut = run.open_rows(-1)
        assert cut == (0, 0, False)
        with rows:
            rows.write({"step": 1})
            run.commit_checkpoint(1, fill, score=0.5)
        assert read_state(run.folder / "state") == ("running", "")
        run.finish()
    names = [
        "checkpoints",
        "checksums.jsonl",
        "environment.json",
        "lock",
        "rows.jsonl",
        "spec.json",
        "state",
    ]
    assert sorted(path.name for path in run.folder.iterdir()) == names
    assert read_stages(run.folder) == STAGES
    assert read_environments(run.folder) == [HERE]
    assert read_state(run.folder / "state") == ("finished", "")
    assert existing_run_folder(tmp_path / "runs", run_address(STAGES)[:16]) == run.folder


def test_a_resumed_run_goes_on_after_its_checkpoint(tmp_path: Path):
    with open_run_folder(tmp_path, STAGES, HERE, name="r") as run, run.open_rows(-1)[0] as rows:
        for step in (1, 2, 3):
            rows.write({"step": step})
            if step == 2:
                run.commit_checkpoint(step, fill)
    with open_run_folder(tmp_path, STAGES, HERE, name="r") as run:
        assert run.previous_state == ("running", "")
        found = run.latest_checkpoint()
        assert found.checkpoint is not None
        rows, cut = run.open_rows(found.checkpoint.step)
        assert cut == (2, 1, False)
        with rows:
            rows.write({"step": 3})
    assert [row["step"] for row in read_rows(run.folder / "rows.jsonl").rows] == [1, 2, 3]


def _damaged(root: Path, step: int) -> None:
    with open_run_folder(root, STAGES, HERE, name="r") as run:
        for whole in (2, 3):
            run.commit_checkpoint(whole, fill)
    (run.folder / f"checkpoints/step-{step:09}/weights.bin").write_bytes(b"")


@pytest.mark.parametrize(
    "left", [None, b"", b'{"step": 0}\n', b'{"step": 0, "nats": 9}\n{"step": 1}\n']
)
def test_rows_lost_or_changed_before_a_resume_are_known_by_the_checkpoint(
    tmp_path: Path, left: bytes | None
):
    with open_run_folder(tmp_path, STAGES, HERE) as run:
        rows, _ = run.open_rows(-1)
        with rows:
            for step in (0, 1):
                rows.write({"step": step})
            run.commit_checkpoint(1, fill)
            rows.write({"step": 2})
    path = run.folder / "rows.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] + b'{"step": 1}\n{"step": 3')
    with open_run_folder(tmp_path, STAGES, HERE) as run:
        run.open_rows(1)[0].close()  # what a later step left does not matter
    path.unlink() if left is None else path.write_bytes(left)
    said = (
        r"rows.jsonl does not hold the rows up to step 2 as they were when that step was saved;"
        r" restore rows.jsonl, "
    )
    with pytest.raises(RecordError, match=said), open_run_folder(tmp_path, STAGES, HERE) as run:
        run.open_rows(1)


def test_rows_changed_after_the_end_are_known(tmp_path: Path):
    with open_run_folder(tmp_path, STAGES, HERE) as run:
        with run.open_rows(-1)[0] as rows:
            rows.write({"step": 0, "nats": 1.0})
        run.finish()
    path = run.folder / "rows.jsonl"
    path.write_text(path.read_text().replace("1.0", "2.0"))
    with (
        open_run_folder(tmp_path, STAGES, HERE) as run,
        pytest.raises(
            RecordError,
            match=r"rows.jsonl is not what was written \(sha256 differs\); restore rows.jsonl",
        ),
    ):
        run.require_complete_rows(1)


def test_an_environment_changed_before_a_resume_is_known(tmp_path: Path):
    with open_run_folder(tmp_path, STAGES, HERE) as run:
        run.commit_checkpoint(0, fill)
    path = run.folder / "environment.json"
    path.write_text(path.read_text() + "\n")
    said = (
        r"environment.json is not what was written \(sha256 differs\); restore it, or remove that"
        r" folder and run it"
    )
    with pytest.raises(RecordError, match=said), open_run_folder(tmp_path, STAGES, HERE):
        pass


def test_a_checkpoint_of_before_rows_were_counted_on_is_resumed(tmp_path: Path):
    with open_run_folder(tmp_path, STAGES, HERE) as run:
        run.commit_checkpoint(1, fill)
    place = run.folder / "checkpoints/step-000000001"
    (place / "checkpoint.json").write_bytes(json_bytes({"step": 1, "score": None}))
    (place / "manifest.json").unlink()
    write_manifest(place)
    with open_run_folder(tmp_path, STAGES, HERE) as run:
        assert run.latest_checkpoint().checkpoint is not None
        run.open_rows(1)[0].close()


def test_a_checkpoint_that_was_skipped_does_not_count_among_the_last_few(tmp_path: Path):
    _damaged(tmp_path, 3)
    with open_run_folder(tmp_path, STAGES, HERE, name="r") as run:
        assert [skipped.folder.name for skipped in run.latest_checkpoint().skipped] == [
            "step-000000003"
        ]
        assert (
            len(list((run.folder / "checkpoints").iterdir())) == 2
        )  # it stays until there is a newer one
        for step, kept in ((5, [2, 5]), (7, [5, 7])):
            run.commit_checkpoint(step, fill, keep_last=2)
            names = sorted(path.name for path in (run.folder / "checkpoints").iterdir())
            assert names == [f"step-{step:09}" for step in kept]


def test_a_checkpoint_that_was_skipped_and_is_written_again_counts(tmp_path: Path):
    _damaged(tmp_path, 3)
    with open_run_folder(tmp_path, STAGES, HERE, name="r") as run:
        assert run.latest_checkpoint().skipped
        run.commit_checkpoint(3, fill, keep_last=2)
        run.commit_checkpoint(5, fill, keep_last=2)
        assert sorted(path.name for path in (run.folder / "checkpoints").iterdir()) == [
            "step-000000003",
            "step-000000005",
        ]


def test_an_error_marks_a_run_failed_and_the_next_opening_says_so(tmp_path: Path):
    with (
        pytest.raises(ValueError, match="of no use"),
        open_run_folder(tmp_path, STAGES, HERE, name="r"),
    ):
        raise ValueError("of no use")
    assert read_state(tmp_path / "r" / "state") == ("failed", "ValueError: of no use")
    assert not is_locked(tmp_path / "r" / "lock")
    with open_run_folder(tmp_path, STAGES, HERE, name="r") as run:
        assert run.previous_state == ("failed", "ValueError: of no use")
        assert read_state(run.folder / "state") == ("running", "")
        run.fail("batch 7 is not finite")
    assert read_state(run.folder / "state") == ("failed", "batch 7 is not finite")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_run_that_is_stopped_has_not_failed(tmp_path: Path, stop: type[BaseException]):
    with pytest.raises(stop), open_run_folder(tmp_path, STAGES, HERE, name="r"):
        raise stop
    assert read_state(tmp_path / "r" / "state") == ("running", "")
    assert not is_locked(tmp_path / "r" / "lock")


def _raising(
    root: Path, environment: dict, fault: Exception, before: Callable[[Run], object]
) -> None:
    with open_run_folder(root, STAGES, environment, name="r") as run:
        before(run)
        raise fault


def test_a_finished_run_stays_finished_whatever_comes_after(tmp_path: Path):
    with pytest.raises(BrokenPipeError):
        _raising(tmp_path, HERE, BrokenPipeError(), Run.finish)
    found = []
    with pytest.raises(ValueError, match="later"):
        _raising(tmp_path, THERE, ValueError("later"), lambda run: found.append(run.previous_state))
    assert found == [("finished", "")]
    assert read_state(tmp_path / "r" / "state") == ("finished", "")
    assert read_environments(tmp_path / "r") == [HERE]


def test_an_error_is_not_hidden_by_a_state_that_cannot_be_written(tmp_path: Path):
    def spoil(run: Run) -> None:
        (run.folder / "state").unlink()
        (run.folder / "state").mkdir()

    with pytest.raises(ValueError, match="the first"):
        _raising(tmp_path, HERE, ValueError("the first"), spoil)


def test_two_processes_cannot_open_one_run(tmp_path: Path):
    other = (
        "import sys; from pathlib import Path; from paribus.record import open_run_folder\nwith"
        " open_run_folder(Path(sys.argv[1]), [{'name': 'pretrain', 'seed': 3}], {}, name='r'): pass"
    )
    with open_run_folder(tmp_path, STAGES, HERE, name="r"):
        ended = subprocess.run(
            [sys.executable, "-c", other, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert f"InUseError: {tmp_path / 'r'} is in use by process {os.getpid()} on" in ended.stderr


def test_a_folder_of_another_run_is_refused(tmp_path: Path):
    other = [{"name": "pretrain", "seed": 5}]
    with open_run_folder(tmp_path, STAGES, HERE, name="r"):
        pass
    said = (
        f"^{tmp_path / 'r'} holds the run {run_address(STAGES)[:16]}, not"
        f" {run_address(other)[:16]}: seed 3 → 5; choose another name, or leave it out"
    )
    with pytest.raises(RecordError, match=said), open_run_folder(tmp_path, other, HERE, name="r"):
        pass


@pytest.mark.parametrize(
    ("held", "given", "said"),
    [
        ([{"seed": 3, "text": "t1"}], [{"seed": 3, "text": "t2"}], "the text read is not the same"),
        ([{"seed": 3, "text": "t1"}], [{"seed": 5, "text": "t2"}], "seed 3 → 5"),
        ([{"from": [{"a": 1}]}], [{"from": [{"a": 2}]}], "from.0.a 1 → 2"),
        ([{"from": [1, 2]}], [{"from": [1, 3]}], r"from \[1, 2\] → \[1, 3\]"),
        ([{"seed": 3}], [{"seed": 3}, {"rate": 1}], "rate nothing → 1"),
        ([{}], [{str(n): n for n in range(9)}], "0 nothing → 0; .*; 4 nothing → 4; and 4 more"),
    ],
)
def test_a_folder_of_another_run_is_refused_with_what_differs(
    tmp_path: Path, held: list, given: list, said: str
):
    with open_run_folder(tmp_path, held, HERE, name="r"):
        pass
    with (
        pytest.raises(RecordError, match=f", not [0-9a-f]{{16}}: {said}; choose"),
        open_run_folder(tmp_path, given, HERE, name="r"),
    ):
        pass


def test_a_finished_run_is_whole_if_every_row_can_be_read_to_its_last_step(tmp_path: Path):
    with open_run_folder(tmp_path, STAGES, HERE, name="r") as run, run.open_rows(-1)[0] as rows:
        for step in (0, 1):
            rows.write({"step": step})
        run.finish()
        run.require_complete_rows(2)
        said = (
            "r finished, but its rows end at step 2 of 3; restore rows.jsonl, or remove that folder"
            " and run it again"
        )
        with pytest.raises(RecordError, match=said):
            run.require_complete_rows(3)
        (run.folder / "rows.jsonl").write_text('garbage\n{"step": 1}\n')
        with pytest.raises(RecordError, match="line 1 is not JSON"):
            run.require_complete_rows(2)


def test_a_folder_that_is_no_run_is_refused_and_left_alone(tmp_path: Path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").touch()
    said = (
        f"^{tmp_path / 'src'} holds 'a.py' and no spec.json: it is not a run; choose another name"
    )
    with (
        pytest.raises(RecordError, match=said),
        open_run_folder(tmp_path, STAGES, HERE, name="src"),
    ):
        pass
    assert [path.name for path in (tmp_path / "src").iterdir()] == ["a.py"]


def test_a_place_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "r").touch()
    said = f"^{tmp_path / 'r'} cannot be made: File exists; choose another folder for runs"
    with pytest.raises(RecordError, match=said), open_run_folder(tmp_path, STAGES, HERE, name="r"):
        pass


def test_checkpoints_that_are_a_file_are_refused(tmp_path: Path):
    with open_run_folder(tmp_path, STAGES, HERE, name="r") as run:
        pass
    (run.folder / "checkpoints").rmdir()
    (run.folder / "checkpoints").touch()
    said = f"^{run.folder / 'checkpoints'} cannot be made: File exists; remove what is in its place"
    with pytest.raises(RecordError, match=said), open_run_folder(tmp_path, STAGES, HERE, name="r"):
        pass


def test_stages_that_json_cannot_say_make_no_folder(tmp_path: Path):
    with (
        pytest.raises(RecordError, match="a stage cannot be written as JSON"),
        open_run_folder(tmp_path, [{"rate": float("nan")}], HERE, name="r"),
    ):
        pass
    assert not (tmp_path / "r").exists()


NAMES = [
    "",
    ".",
    "..",
    ".hidden",
    "../out",
    "a/b",
    "/etc",
    "a\\b",
    "a\0b",
    "a\n",
    "a b",
    "é",
    "a" * 101,
    "~",
    "a:b",
    "²",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_cannot_leave_the_runs_folder(tmp_path: Path, name: str):
    with pytest.raises(
        RecordError,
        match=r"^the run name .* cannot be the name of a folder; use up to 100 letters, digits,"
        r" '.', '_'",
    ):
        named_folder(tmp_path, name)


@pytest.mark.parametrize("name", ["studies", "Studies"])
def test_the_folder_of_studies_is_no_run(tmp_path: Path, name: str):
    said = f"^the run name '{name}' is the name of the folder of studies; choose another"
    with pytest.raises(RecordError, match=said):
        named_folder(tmp_path, name)
    assert named_folder(tmp_path, name, "study") == tmp_path / name


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "a..b", "_", "a" * 100])
def test_a_plain_name_is_a_place(tmp_path: Path, name: str):
    assert named_folder(tmp_path, name) == tmp_path / name


def test_a_link_cannot_leave_the_runs_folder(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "r").symlink_to(outside)
    said = (
        f"^{tmp_path / 'runs' / 'r'} is a link, which may lead out of {tmp_path / 'runs'}; use a"
        " plain folder"
    )
    with (
        pytest.raises(RecordError, match=said),
        open_run_folder(tmp_path / "runs", STAGES, HERE, name="r"),
    ):
        pass
    assert not any(outside.iterdir())


@pytest.mark.parametrize(
    "name", ["spec.json", "environment.json", "rows.jsonl", "checkpoints", "state", "lock"]
)
def test_a_link_inside_a_run_folder_is_refused(tmp_path: Path, name: str):
    with open_run_folder(tmp_path, STAGES, HERE, name="r") as run:
        pass
    if (run.folder / name).exists():
        (run.folder / name).rename(tmp_path / "moved")
    (run.folder / name).symlink_to(tmp_path / "outside")
    said = (
        f"^{run.folder / name} is a link, which may lead out of {run.folder}; use a plain file or"
        " folder"
    )
    with pytest.raises(RecordError, match=said), open_run_folder(tmp_path, STAGES, HERE, name="r"):
        pass
    assert not (tmp_path / "outside").exists()


def test_the_runs_folder_itself_may_be_a_link(tmp_path: Path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "scratch")
    with open_run_folder(tmp_path / "runs", STAGES, HERE, name="r") as run:
        assert run.folder.is_dir()


def test_no_run_is_not_an_existing_one(tmp_path: Path):
    (tmp_path / "r").mkdir()
    with pytest.raises(
        RecordError, match=f"^{tmp_path / 'r'} holds no run; `paribus runs` lists the runs"
    ):
        existing_run_folder(tmp_path, "r")


@pytest.mark.parametrize("content", [[], {}, {"stages": []}, {"stages": [1]}])
def test_a_spec_that_is_no_chain_is_refused(tmp_path: Path, content: object):
    (tmp_path / "spec.json").write_text(json.dumps(content))
    with pytest.raises(
        RecordError,
        match=r"spec.json is not a list of stages; restore it, or remove the folder and start",
    ):
        read_stages(tmp_path)


@pytest.mark.parametrize("content", [{}, [], [1]])
def test_an_environment_file_without_environments_is_refused(tmp_path: Path, content: object):
    (tmp_path / "environment.json").write_text(json.dumps(content))
    with pytest.raises(
        RecordError,
        match=r"environment.json lists no environments; restore it, or remove the folder",
    ):
        read_environments(tmp_path)


def _run(root: Path, environment: dict, step: int, accept: bool = False) -> dict:
    with open_run_folder(root, STAGES, environment, name="r", accept_environment=accept) as run:
        with run.open_rows(step - 1)[0] as rows:
            row = rows.write({"step": step})
        run.commit_checkpoint(step, fill)
    return row


def test_a_run_is_resumed_under_another_environment_only_when_accepted_and_marked_ever_after(
    tmp_path: Path,
):
    assert _run(tmp_path, HERE, 1) == {"step": 1}
    said = (
        f"^{tmp_path / 'r'} was made under another environment: torch was 2.11, is 2.12; resume"
        " .*--accept-environment"
    )
    with pytest.raises(RecordError, match=said):
        _run(tmp_path, THERE, 2)
    assert _run(tmp_path, HERE, 2) == {"step": 2}
    assert _run(tmp_path, THERE, 3, accept=True) == {"step": 3, "environment_changed": ["torch"]}
    assert _run(tmp_path, THERE, 4) == {"step": 4, "environment_changed": ["torch"]}
    with pytest.raises(RecordError, match=r"torch was 2.12, is 2.11"):
        _run(tmp_path, HERE, 5)
    assert _run(tmp_path, HERE, 5, accept=True) == {"step": 5, "environment_changed": ["torch"]}
    assert read_environments(tmp_path / "r") == [HERE, THERE, HERE]
    assert len(read_rows(tmp_path / "r" / "rows.jsonl").rows) == 5


def test_accepting_where_nothing_differs_marks_nothing(tmp_path: Path):
    assert _run(tmp_path, HERE, 1, accept=True) == {"step": 1}
    assert _run(tmp_path, HERE, 2, accept=True) == {"step": 2}
    assert read_environments(tmp_path / "r") == [HERE]


def test_a_run_without_a_checkpoint_starts_anew_under_any_environment(tmp_path: Path):
    with open_run_folder(tmp_path, STAGES, HERE, name="r"):
        pass
    with open_run_folder(tmp_path, STAGES, THERE, name="r") as run:
        assert run.environment_changes == {}
    assert read_environments(run.folder) == [THERE]


def test_record_needs_no_torch():
    script = (
        "import sys, paribus.record; assert not {'torch', 'safetensors', 'pydantic', 'numpy'} &"
        " {*sys.modules}"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
