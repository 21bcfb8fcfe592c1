"""The command line as a whole: verbs, help, exit status and what goes where."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from paribus import __version__
from paribus.cli import line, main, verbs

SOURCE = Path(__file__).parents[2] / "src"
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from paribus.cli import main; sys.exit(main())"


def shell(*words: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-W", "error", "-c", WITHOUT_TORCH, *words]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment, check=False)


def test_the_verbs_are_the_files():
    assert " ".join(verbs()) == (
        "corpus demo diff doctor evaluate export generate import plan price report rows run runs show train watch"
    )


def test_help_lists_every_verb_with_its_line_and_needs_no_torch():
    answer = shell("--help")
    assert answer.returncode == 0
    assert answer.stderr == ""
    assert "75 (of train 130, 143) interrupted: run it again." in answer.stdout
    for verb, module in verbs().items():
        assert f"{verb} " in answer.stdout
        assert line(module) in answer.stdout


@pytest.mark.parametrize(
    "words", [("show",), ("show", "t5"), ("price", "gpt2"), ("diff", "gpt2", "bert"), ("--version",)]
)
def test_what_only_reads_specs_needs_no_torch(words):
    answer = shell(*words)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout


@pytest.mark.parametrize("words", [("doctor",), ("train", "run.toml"), ("generate", "run", "text")])
def test_what_trains_says_that_it_needs_torch(words):
    answer = shell(*words)
    assert answer.returncode == 1
    said = f"error: `paribus {words[0]}` needs torch, which is not installed; run pip install torch\n"
    assert answer.stderr == said


def test_a_pipe_gets_no_colour_no_cut_and_no_trailing_spaces():
    out = shell("show").stdout
    assert "\x1b" not in out
    assert "…" not in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_a_terminal_gets_colour_and_lines_that_fit():
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm"}
    for name in ("COLUMNS", "NO_COLOR"):
        environment.pop(name, None)
    command = [sys.executable, "-c", WITHOUT_TORCH, "diff", "gpt2", "hybrid"]
    status = subprocess.run(command, stdout=theirs, env=environment, check=False).returncode
    os.close(theirs)
    written = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert status == 0
    assert "\x1b[31mcausal" in written
    plain = re.sub(r"\x1b\[[0-9;]*m", "", written)
    assert max(map(len, plain.splitlines())) <= 100


def test_an_ascii_terminal_gets_ascii():
    out = shell("show", "mixed-heads", encoding="ascii").stdout
    assert out.isascii()
    assert "#..............." in out
    assert "12 heads x 64" in out


def test_a_reader_that_leaves_early_is_no_error():
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_TORCH, "show", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 1
    process.stderr.close()


def test_no_words_are_a_plea_for_help(ask):
    assert ask().out == ask("--help").out


def test_the_version_is_that_of_the_package(ask):
    assert ask("--version").out == f"paribus {__version__}\n"


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_explains_itself(ask, verb):
    answer = ask(verb, "--help")
    assert answer.status == 0
    assert f"Usage: paribus {verb} " in answer.out
    assert line(verbs()[verb]) in " ".join(answer.out.split())


def test_an_unknown_verb_is_met_with_the_nearest(ask):
    answer = ask("shwo")
    assert answer.status == 2
    assert answer.out == ""
    assert answer.err == (
        "error: 'shwo' is no verb of paribus; did you mean 'show'? "
        "verbs are corpus, demo, diff, doctor, evaluate, export, generate, import, plan, price, report, rows, run, "
        "runs, show, train, watch\n"
    )


def test_an_unknown_option_is_a_mistake_in_what_was_asked(ask):
    answer = ask("show", "--colour")
    assert answer.status == 2
    assert "--colour" in answer.err


def test_an_interruption_has_the_status_of_one(monkeypatch):
    def interrupted(words):
        raise KeyboardInterrupt

    monkeypatch.setattr("paribus.cli._run", interrupted)
    assert main([]) == 130


def test_what_the_system_refuses_is_said_in_a_line(ask, monkeypatch):
    def denied(words):
        raise PermissionError(13, "Permission denied", "runs/a")

    monkeypatch.setattr("paribus.cli._run", denied)
    answer = ask("show")
    assert (answer.status, answer.err) == (1, "error: runs/a: Permission denied\n")


BAD = [
    (("show", "gtp2"), "gtp2 is no preset and no .toml or .json file; did you mean 'gpt2'?"),
    (("show", "nowhere.toml"), "nowhere.toml cannot be read: No such file or directory"),
    (("show", "gpt2", "--set", "n_layer=4"), "n_layer is not a key here; did you mean 'n_layers'?"),
    (("show", "gpt2", "--set", "n_layers=four"), "n_layers is 'four' (str); use a whole number"),
    (("show", "gpt2", "--set", "n_heads=5"), "attention.n_heads is 5, which does not divide d_model 768"),
    (("price", "gpt2", "--set", "mask=causl"), "did you mean 'causal'?"),
    (("diff", "gpt2", "gpt2", "--set-b", "n_layers"), "--set-b is 'n_layers'; write path=value"),
]


@pytest.mark.parametrize(("words", "complaint"), BAD)
def test_bad_input_is_named_on_stderr_without_a_traceback(ask, words, complaint):
    answer = ask(*words)
    assert answer.status == 2
    assert answer.out == ""
    assert complaint in answer.err
    assert answer.err.startswith("error: ")
    assert "Traceback" not in answer.err


def test_every_problem_has_a_line_of_its_own(ask):
    answer = ask("show", "gpt2", "--set", "n_layers=four", "--set", "d_modle=3")
    assert [problem.split()[1] for problem in answer.err.splitlines()] == ["n_layers", "d_modle"]
