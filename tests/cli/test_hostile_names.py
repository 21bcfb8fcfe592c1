"""Whatever others named or wrote, no verb sends it to the terminal as it is: only newlines and
tabs are not letters.
"""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import tarfile
import unicodedata
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from byte_models import BYTE_TOKENIZER, VOCABULARY
from handmade_study import make_study
from run_state import write_state
from safetensors.torch import load_file, save_file
from trained_study import design_table

from paribus.cli import main
from paribus.errors import RecordError
from paribus.escapes import EscapingStream, SafeConsole, escaped_streams
from paribus.generate import GeneratedAnswer
from paribus.interop import export
from paribus.model import build
from paribus.record.disk import write_json
from paribus.spec import load

SOURCE = Path(__file__).parents[2] / "src"
# Colour, a title, a cleared screen in C1, a link, a line overwritten, letters turned round, a bell,
# markup.
HOSTILE = "a\x1b[31mb\x1b]0;title\x07c\x9b2Jd\x1b]8;;http://x\x1b\\e\rf\u202eg\x7fh[bold red]i"
NAME = HOSTILE.replace("/", "|")
BIDI = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"
TINY = {"preset": "gpt2", "n_layers": 1, "d_model": 8, "attention": {"n_heads": 2}}
TRAINING = {"n_steps": 2, "n_sequences": 2, "length": 16}


def obeyed(text: str) -> set[str]:
    """What a terminal would obey."""
    return {
        letter
        for letter in text
        if (unicodedata.category(letter) == "Cc" and letter not in "\n\t") or letter in BIDI
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder, and below it one of a hostile name."""
    here = tmp_path / NAME
    here.mkdir()
    return here


def toml(path: Path, table: dict) -> Path:
    path = path.with_suffix(".json")
    path.write_text(json.dumps(table))
    return path


def study_words(root: Path) -> list[tuple]:
    study = make_study(root, failed=[("prefix", 1)])
    plan = study.read_plan()
    plan["question"] = plan["design"]["question"] = HOSTILE
    plan["control"][0]["note"] = HOSTILE
    study.write_plan(plan)
    failed = next(cell.run for cell in study.read_cells() if (cell.arm, cell.seed) == ("prefix", 1))
    write_state(root / failed / "state", "failed", f"DivergedError: {HOSTILE}")
    broken = root / "broken"
    broken.mkdir()
    write_json(
        broken / "spec.json",
        {"stages": [{"objective": {"kind": HOSTILE}, "architecture": {"mask": HOSTILE}}]},
    )
    write_state(broken / "state", "failed", HOSTILE)
    (broken / "rows.jsonl").write_text(f"{HOSTILE}\n")
    runs = ("--runs", root)
    return [
        ("report", "small", *runs, "--format", "md"),
        ("rows", "small", *runs),
        ("rows", "small", *runs, "--csv"),
        ("rows", "small", *runs, "--json"),
        ("runs", *runs),
        ("runs", *runs, "--json"),
        ("watch", *runs),
        ("watch", "small", *runs),
        ("report", NAME, *runs),
        ("report", "small", *runs, "--format", HOSTILE),
        ("evaluate", NAME, *runs),
        ("generate", "broken", HOSTILE, *runs),
        ("export", NAME, root / "out", *runs),
    ]


def text_words(folder: Path) -> list[tuple]:
    (folder / f"{NAME}.txt").write_text(
        f"{HOSTILE}\n\nplain text that is long enough {HOSTILE}" * 20
    )
    corpus = {"sources": [{"kind": "files", "paths": str(folder)}], "valid": 0, "test": 0}
    run = toml(folder / f"{NAME}-run", {"corpus": corpus})
    bad = toml(
        folder / "bad",
        {"corpus": {"sources": [{"kind": "files", "paths": str(folder / f"{NAME}.gone")}]}},
    )
    with tarfile.open(folder / "a.tar", "w") as tar:
        entry = tarfile.TarInfo(f"{HOSTILE}.jsonl")
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"{{{\n"))
    tar_run = toml(
        folder / "tar", {"corpus": {"sources": [{"kind": "files", "paths": str(folder / "a.tar")}]}}
    )
    cache = ("--cache", folder / "cache")
    return [
        ("corpus", "sample", run, *cache, "-n", "1"),
        ("corpus", "sample", run, *cache, "-n", "1", "--json"),
        ("corpus", "build", run, *cache),
        ("corpus", "show", run, *cache),
        ("corpus", "show", bad, *cache),
        ("corpus", "show", tar_run, *cache),
        ("corpus", NAME, run),
        ("train", run, "--runs", folder / "runs", *cache),
    ]


def spec_words(folder: Path) -> list[tuple]:
    design = {
        "question": HOSTILE,
        "factor": "architecture.mask",
        "baseline": "causal",
        HOSTILE: 1,
        "base": {
            "architecture": TINY,
            "training": TRAINING,
            "corpus": {"sources": [{"kind": "copy", "form": "text"}]},
        },
        "arms": {"causal": {}, NAME: {"architecture": {"mask": "prefix"}}},
    }
    arch = folder / f"{NAME}.toml"
    arch.write_text(f"# about \u202e it\npreset = 'gpt2'\nn_layers = {json.dumps('x')}\n")
    good = folder / "good.toml"
    good.write_text("# about \u202e \x9b it\npreset = 'gpt2'\n")
    return [
        ("plan", toml(folder / "design", design)),
        ("run", toml(folder / "design", design)),
        ("show", arch),
        ("show", good),
        ("show", "gpt2", good),
        ("price", good),
        ("diff", good, "bert"),
        ("doctor", arch),
        ("show", HOSTILE),
        (HOSTILE,),
        ("show", f"--{HOSTILE}"),
        ("show", "gpt2", "--set", f"{HOSTILE}=1"),
        ("show", "gpt2", "--set", f"mask={HOSTILE}"),
        ("price", "gpt2", "--length", HOSTILE),
        ("demo", HOSTILE),
        ("plan", NAME),
        ("train", folder / f"{NAME}.gone.toml"),
    ]


def tensor_words(folder: Path) -> list[tuple]:
    theirs = folder / f"hf {NAME}"
    export(build(load(TINY, n_vocab=11, max_length=13)), theirs)
    config = json.loads((theirs / "config.json").read_text())
    save_file({HOSTILE: torch.zeros(2)}, theirs / "model.safetensors")
    odd = folder / "odd"
    odd.mkdir()
    (odd / "config.json").write_text(json.dumps({**config, HOSTILE: HOSTILE}))
    return [
        ("import", theirs, folder / "out"),
        ("import", odd, folder / "out"),
        ("import", folder / "none", folder),
    ]


@pytest.mark.parametrize("words", [study_words, text_words, spec_words, tensor_words])
def test_no_verb_lets_a_terminal_obey_what_others_wrote(folder, ask, words, monkeypatch):
    for each in words(folder):
        answer = ask(*each)
        said = answer.out + answer.err
        assert said.strip(), each
        assert not obeyed(said), (each, sorted(obeyed(said)))
        assert "Traceback" not in said, (each, said)


def question(here: Path, cache: Path) -> tuple:
    return (
        "plan",
        toml(here / "design", design_table({"question": HOSTILE})),
        "--cache",
        cache,
        "--device",
        "cpu",
    )


def reason(here: Path, cache: Path) -> tuple:
    (here / "runs/one").mkdir(parents=True)
    write_json(here / "runs/one/spec.json", {"stages": [{}]})
    write_state(here / "runs/one/state", "failed", HOSTILE)
    return ("runs", "--runs", here / "runs")


def folder_name(here: Path, cache: Path) -> tuple:
    (here / NAME).mkdir()
    return ("import", here / NAME, here / "out")


def corpus_words(here: Path, path: Path) -> tuple:
    run = toml(here / "run", {"corpus": {"sources": [{"kind": "files", "paths": str(path)}]}})
    return ("corpus", "build", run, "--cache", here / "cache")


def file_name(here: Path, cache: Path) -> tuple:
    (here / "texts").mkdir()
    (here / "texts" / f"{NAME}.jsonl").write_text("{{{")
    return corpus_words(here, here / "texts")


def member_name(here: Path, cache: Path) -> tuple:
    with tarfile.open(here / "a.tar", "w") as tar:
        entry = tarfile.TarInfo(f"{NAME}.jsonl")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"{{{"))
    return corpus_words(here, here / "a.tar")


def tensor_name(here: Path, cache: Path) -> tuple:
    export(build(load(TINY, n_vocab=11, max_length=13)), here / "theirs")
    path = here / "theirs/model.safetensors"
    save_file({**load_file(path), HOSTILE: torch.zeros(2)}, path, metadata={"format": "pt"})
    return ("import", here / "theirs", here / "out")


@pytest.mark.parametrize(
    "place", [question, reason, folder_name, file_name, member_name, tensor_name]
)
def test_what_others_wrote_in_one_place_is_shown_written_out(ask, tmp_path, study_cache, place):
    """Nothing else there is hostile: what is shown comes from this place."""
    answer = ask(*place(tmp_path, study_cache))
    said = answer.out + answer.err
    assert r"a\x1b[31mb\x1b]0;title\x07c\x9b2Jd" in said.replace("\n", "")
    assert not obeyed(said)


def test_a_terminal_gets_our_colours_and_not_theirs(folder):
    """On a terminal the escapes of our own styles are there; theirs are written out."""
    (folder / "run").mkdir()
    write_json(folder / "run" / "spec.json", {"stages": [{}]})
    write_state(folder / "run" / "state", "failed", HOSTILE)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm", "COLUMNS": "400"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "paribus", "runs", "--runs", str(folder)]
    subprocess.run(command, stdout=theirs, stderr=theirs, env=environment, check=True)
    os.close(theirs)
    written = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "\x1b[1m" in written  # the heading
    assert r"a\x1b[31mb\x1b]0;title\x07c\x9b2J" in written
    assert r"f\u202eg\x7fh[bold red]i" in written


def test_whoever_prints_prints_what_can_be_seen(monkeypatch, capsys):
    def careless(words):
        print(HOSTILE)
        sys.stderr.writelines([HOSTILE])
        warnings.warn(HOSTILE, stacklevel=1)
        raise RecordError(HOSTILE * 20_000)

    monkeypatch.setattr("paribus.cli._dispatch", careless)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: sys.stderr.write(f"{message}\n")
        assert main(["show"]) == 1
    captured = capsys.readouterr()
    assert not obeyed(captured.out + captured.err)
    assert captured.out.startswith(r"a\x1b[31mb")
    assert len(captured.err) < 40_000  # a message that quotes megabytes is cut


def test_streams_are_put_back_and_closed_ones_left_alone(monkeypatch):
    before = sys.stdout
    with escaped_streams():
        assert isinstance(sys.stdout, EscapingStream)
        assert sys.stdout.writable()
    assert sys.stdout is before
    monkeypatch.setattr(sys, "stderr", None)
    with escaped_streams():
        assert sys.stderr is None


def test_a_stream_of_text_takes_no_bytes():
    with pytest.raises(TypeError, match="write was given bytes; give text"):
        EscapingStream(io.StringIO()).write(b"x")  # type: ignore[arg-type]


def test_a_page_takes_no_markup_and_keeps_columns_whole():
    page = SafeConsole(file=io.StringIO(), width=200)
    page.print(f"[red]{HOSTILE}[/red]")
    assert page.file.getvalue() == (
        "[red]"
        + r"a\x1b[31mb\x1b]0;title\x07c\x9b2Jd\x1b]8;;http://x\x1b\e\rf\u202eg\x7fh[bold red]i"
        + "[/red]\n"
    )


def test_what_a_model_says_is_seen_and_not_obeyed(ask, monkeypatch):
    said = GeneratedAnswer(tokens=(1,), is_ended=True, n_truncated=0, text=HOSTILE)
    checkpoint = SimpleNamespace(notes=(), tokenizer=BYTE_TOKENIZER, vocabulary=VOCABULARY)
    monkeypatch.setattr("paribus.cli.generate.load_checkpoint", lambda *_, **__: checkpoint)
    monkeypatch.setattr("paribus.cli.generate._texts_of", lambda *_: (said,))
    answer = ask("generate", "run", "text")
    assert answer.status == 0
    assert not obeyed(answer.out)
