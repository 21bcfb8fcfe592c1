"""Text that cannot be trained on is refused by `paribus train` before anything is made; odd
text is read.
"""

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from train_shell import PROGRAM, TrainShell, rows_without_seconds

LINES = b"".join(
    b'{"text": "Document %d is a document of its own."}\n' % number for number in range(200)
)
FILES = {
    "bad/a.txt": b"some text\n" * 300 + b"caf\xe9",
    "hollow/a.txt": b"",
    "hollow/b.md": b" \n\n",
    "other/a.pdf": b"no text",
    "some/a.jsonl": LINES,
    "p.csv": b"source,answer\none,two\n",
    "torn.jsonl": LINES[:-9],
}
NO_TEXT = (
    "holds no file that can be read here; give .txt, .md, .jsonl, .csv, .tsv, .tar, or packed: .gz"
    " .xz .zst"
)
FEW = (
    "not one row of length 32; read more text, cut it into smaller documents by max_document, hold"
    " out another share, or use shorter rows"
)

# what is read, what else the corpus says, exit status, what is said
FAULTS: list[tuple[dict[str, Any], dict[str, Any], int, str]] = [
    (
        {"paths": "bad"},
        {},
        1,
        "bad/a.txt is not UTF-8 at byte 3003; save it as UTF-8, or set errors = 'replace'",
    ),
    ({"paths": "nowhere"}, {}, 2, "/nowhere' does not exist; give a file, a folder or a glob"),
    (
        {"paths": "nowhere.txt"},
        {},
        2,
        "/nowhere.txt' does not exist; give a file, a folder or a glob",
    ),
    ({"paths": "none"}, {}, 2, f"/none' {NO_TEXT}"),
    ({"paths": "other"}, {}, 2, f"/other' {NO_TEXT}"),
    (
        {"paths": "gone"},
        {},
        1,
        "gone/a.txt cannot be read: No such file or directory; restore it, or leave it out of",
    ),
    (
        {"paths": "hollow"},
        {},
        2,
        "source 'files' is empty: no document with a letter in it, 1 without, 0 files passed",
    ),
    ({"paths": "some"}, {"valid": 0}, 2, f"sources.0 (files) has 0 tokens of valid text, {FEW}"),
    ({"paths": "some"}, {"valid": 1e-9}, 2, f"sources.0 (files) has 0 tokens of valid text, {FEW}"),
    (
        {"paths": "some"},
        {"valid": 0, "test": 1 - 1e-9},
        2,
        f"sources.0 (files) has 0 tokens of train text, {FEW}",
    ),
    ({"paths": "torn.jsonl"}, {}, 1, "torn.jsonl line 200 is not JSON: Unterminated string"),
    (
        {"kind": "pairs", "paths": "p.csv"},
        {},
        2,
        "p.csv has no column 'target'; its columns are 'source', 'answer'",
    ),
]


@pytest.fixture
def here(shell: TrainShell, monkeypatch: pytest.MonkeyPatch) -> TrainShell:
    """A shell among such files."""
    monkeypatch.chdir(shell.home)
    for name, content in FILES.items():
        path = shell.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    (shell.home / "none").mkdir()
    (shell.home / "gone").mkdir()
    (shell.home / "gone/a.txt").symlink_to("nowhere.txt")
    return shell


@pytest.mark.parametrize(("source", "corpus", "status", "said"), FAULTS)
def test_text_that_cannot_be_trained_on_is_refused_before_a_run_is_made(
    here: TrainShell, source: dict[str, Any], corpus: dict[str, Any], status: int, said: str
) -> None:
    here.write_spec({"sources": [{"kind": "files"} | source], **corpus})
    refused = here.train()
    assert (refused.status, refused.out) == (status, "")
    assert refused.err.splitlines()[-1].startswith("error: ")
    assert said in refused.err.splitlines()[-1]
    assert not (here.home / "run").exists()


def test_a_place_where_no_text_can_be_kept_is_refused(here: TrainShell) -> None:
    here.write_spec({"valid": 0.1})
    refused = here.train("--cache", "/proc/texts")
    assert refused.status == 1
    assert "error: /proc/texts cannot be written: " in refused.err
    assert refused.err.endswith("; choose another folder for texts\n")
    file = here.train("--cache", "p.csv")
    assert (file.status, file.err) == (
        2,
        "error: --cache is p.csv, which is a file; name a folder\n",
    )


def test_bad_bytes_are_replaced_and_counted_when_asked(here: TrainShell) -> None:
    (here.home / "some/b.txt").write_bytes(b"caf\xe9 and \xff")
    (here.home / "some/c.pdf").touch()
    here.write_spec({"sources": [{"kind": "files", "paths": "some", "errors": "replace"}]})
    first, second, *_ = here.train_or_fail().out.splitlines()
    assert first == "note: corpus.sources.0 (files): 2 faults of UTF-8 were replaced"
    assert second == "note: corpus.sources.0 (files): 1 files of other kinds were passed over"


def test_pairs_that_are_cut_are_counted(here: TrainShell) -> None:
    rows = [{"source": "word " * (number % 10), "target": f"n {number}"} for number in range(100)]
    (here.home / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    here.write_spec({"sources": [{"kind": "pairs", "paths": "p.jsonl"}], "valid": 0.2, "test": 0})
    first, second, *_ = here.train_or_fail("--set", "objective=seq2seq").out.splitlines()
    assert first == "note: corpus.sources.0 (pairs): 10 documents without a letter were left out"
    assert second.startswith("note: ")
    assert second.endswith(
        " pairs are longer than 32 tokens: the beginnings of their sources are left out"
    )


def test_steps_that_ask_nothing_are_rows_without_nats(here: TrainShell) -> None:
    rows = [
        {"source": f"s{number}", "target": "long " * 8 if number % 8 else "so"}
        for number in range(160)
    ]
    (here.home / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    here.write_spec(
        {"sources": [{"kind": "pairs", "paths": "p.jsonl"}], "valid": 0.2, "test": 0}, n_sequences=1
    )
    out = here.train_or_fail("--set", "objective=seq2seq").out
    assert (
        " pairs have targets of 32 tokens or more, with their end, which leave no room for a source"
        in out
    )
    rows = rows_without_seconds(here.home / "run")
    scored = [after["tokens_scored"] - before["tokens_scored"] for before, after in pairwise(rows)]
    assert set(scored) == {0, 3}  # "so" and its end
    assert [row["nats"] is None for row in rows[1:]] == [count == 0 for count in scored]
    assert [(row["valid_nats"], row["gap"]) for row in rows[3::4]] == [
        (None, None)
    ] * 3  # the one row held out
    assert any(line.startswith("step ") and "nats –" in line for line in out.splitlines())
    assert all("nonfinite" not in row for row in rows)


WATCH = f"""
import sys, threading, time
import torch, paribus.cli.train

def anonymous():
    lines = open("/proc/self/status")
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))

peak = before = anonymous()
def watch():
    global peak
    while True:
        peak = max(peak, anonymous())
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
{PROGRAM.replace("sys.exit(main())", "status = main()")}
print("grown", peak - before)
sys.exit(status)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its memory")
@pytest.mark.parametrize(
    ("name", "begin", "end", "megabytes"),
    [
        ("long.txt", "", "", 150),
        (
            "long.jsonl",
            LINES.decode() + '{"text": "',
            '"}',
            700,
        ),  # a line of JSON must be held, a few times over
    ],
)
def test_a_line_of_a_hundred_megabytes_is_trained_on(
    here: TrainShell, name: str, begin: str, end: str, megabytes: int
) -> None:
    shell = TrainShell(here.home, here.home / "cache")
    with (here.home / name).open("w") as file:
        file.write(begin)
        for number in range(100):
            file.write(f"{number} spam " * (1_000_000 // len(f"{number} spam ")))
        file.write(end)
    shell.write_spec({"sources": [{"kind": "files", "paths": name}]})
    ended = subprocess.run(
        [sys.executable, "-c", WATCH, *shell.arguments()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    *_, last, grown = ended.stdout.splitlines()
    assert last.startswith("12 steps: ")
    assert int(grown.removeprefix("grown ")) < megabytes
    shutil.rmtree(shell.cache)
    (here.home / name).unlink()
