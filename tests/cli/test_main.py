"""The command line as a whole: verbs, help, exit status and what goes where."""

import ast
import atexit
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from paribus import __version__, cli
from paribus.cli import main, verb_summary, verbs

SOURCE = Path(__file__).parents[2] / "src"
WITHOUT_TORCH = (
    "import sys; sys.modules['torch'] = None; from paribus.cli import main; sys.exit(main())"
)


# Told words and a file, a line of JSON each time, it answers as a process of its own, forked before
# any verb was called: most of a call without torch is the import of the specs.
FORKED = """
import json, os, sys, traceback
sys.modules['torch'] = None
import paribus.spec
from paribus.cli import main
while line := sys.stdin.readline():
    words, page = json.loads(line)
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, end in ((1, 'out'), (2, 'err')):
                os.dup2(os.open(f'{page}.{end}', os.O_CREAT | os.O_WRONLY), number)
            status = main(words)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


@cache
def forking_shell() -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", FORKED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    atexit.register(process.communicate)  # which closes its stdin, and waits
    return process


@cache
def shell(*words: str) -> subprocess.CompletedProcess[str]:
    """What the command line without torch says; the same words are asked once."""
    process = forking_shell()
    assert process.stdin is not None
    assert process.stdout is not None
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page"
        print(json.dumps([words, str(page)]), file=process.stdin, flush=True)
        status = int(process.stdout.readline())
        out, err = (page.with_suffix(f".{end}").read_text("utf-8") for end in ("out", "err"))
    return subprocess.CompletedProcess(list(words), status, out, err)


def test_the_verbs_are_the_files():
    assert (
        " ".join(verbs())
        == "chat chat-demo corpus demo diff doctor evaluate export fields fill-mask generate import"
        " law pack plan price probe prune report rows run runs serve show studies tasks train turns"
        " unpack watch"
    )


def test_help_lists_every_verb_with_its_line_and_needs_no_torch():
    answer = shell("--help")
    assert answer.returncode == 0
    assert answer.stderr == ""
    assert "75 interrupted (train: 130 or 143): run the same command again." in answer.stdout
    for verb, module in verbs().items():
        assert f"{verb} " in answer.stdout
        assert verb_summary(module) in answer.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("show", "t5"),
        ("price", "gpt2"),
        ("diff", "gpt2", "bert"),
        ("fields",),
        ("--version",),
    ],
)
def test_what_only_reads_specs_needs_no_torch(words):
    answer = shell(*words)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout


@pytest.mark.parametrize("words", [("doctor",), ("train", "run.toml"), ("generate", "run", "text")])
def test_what_trains_says_that_it_needs_torch(words):
    answer = shell(*words)
    assert answer.returncode == 1
    said = (
        f"error: `paribus {words[0]}` needs torch, which is not installed; run pip install torch\n"
    )
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
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-W", "error", "-c", WITHOUT_TORCH, "show", "mixed-heads"]
    out = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=environment, check=False
    ).stdout
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
    assert verb_summary(verbs()[verb]) in " ".join(answer.out.split())


def test_an_unknown_verb_is_met_with_the_nearest(ask):
    answer = ask("shwo")
    assert answer.status == 2
    assert answer.out == ""
    assert (
        answer.err == "error: 'shwo' is not a verb of paribus; did you mean 'show'? verbs are chat,"
        " chat-demo, corpus, demo, diff, doctor, evaluate, export, fields, fill-mask, generate,"
        " import, law, pack, plan, price, probe, prune, report, rows, run, runs, serve, show,"
        " studies, tasks, train, turns, unpack, watch\n"
    )


def test_an_unknown_option_is_a_mistake_in_what_was_asked(ask):
    answer = ask("show", "--colour")
    assert answer.status == 2
    assert "--colour" in answer.err


def test_an_interruption_has_the_status_of_one(monkeypatch):
    def interrupted(words):
        raise KeyboardInterrupt

    monkeypatch.setattr("paribus.cli._dispatch", interrupted)
    assert main([]) == 130


def test_what_the_system_refuses_is_said_in_a_line(ask, monkeypatch):
    def denied(words):
        raise PermissionError(13, "Permission denied", "runs/a")

    monkeypatch.setattr("paribus.cli._dispatch", denied)
    answer = ask("show")
    assert (answer.status, answer.err) == (1, "error: runs/a: Permission denied\n")


BAD = [
    (("show", "gtp2"), "gtp2 is neither a preset nor a .toml or .json file; did you mean 'gpt2'?"),
    (("show", "nowhere.toml"), "nowhere.toml cannot be read: No such file or directory"),
    (("show", "gpt2", "--set", "n_layer=4"), "n_layer is not a key here; did you mean 'n_layers'?"),
    (("show", "gpt2", "--set", "n_layers=four"), "n_layers is 'four' (str); use a whole number"),
    (
        ("show", "gpt2", "--set", "n_heads=5"),
        "attention.n_heads is 5, which does not divide d_model 768",
    ),
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


BARE = {  # what each verb is asked where torch cannot be imported
    "chat": ("x",),
    "chat-demo": (),
    "corpus": ("build",),
    "demo": (),
    "diff": ("gpt2", "bert"),
    "doctor": (),
    "evaluate": ("x",),
    "export": ("x", "y"),
    "fields": (),
    "fill-mask": ("x", "y"),
    "generate": ("x", "y"),
    "import": ("x", "y"),
    "law": ("x.csv",),
    "pack": ("x",),
    "plan": ("mixed-attention",),
    "price": ("gpt2",),
    "probe": ("x",),
    "prune": (),
    "report": ("x",),
    "rows": ("x",),
    "run": ("mixed-attention",),
    "runs": (),
    "serve": ("x",),
    "show": ("causal",),
    "studies": (),
    "tasks": (),
    "train": ("x.toml",),
    "turns": ("gpt2",),
    "unpack": ("x.zip",),
    "watch": (),
}
WITHOUT = (  # torch
    "diff",
    "fields",
    "law",
    "pack",
    "price",
    "prune",
    "report",
    "rows",
    "runs",
    "studies",
    "unpack",
    "watch",
)
BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "{library}":
            raise {kind}
sys.meta_path.insert(0, Blocked())
from paribus.cli import main
sys.exit(main())
"""
MISSING = "ModuleNotFoundError(name, name=name)"


def blocked(library: str, kind: str, *words: str, where: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", BLOCKED.format(library=library, kind=kind), *words]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, cwd=where
    )


def test_every_verb_is_asked_without_torch():
    assert tuple(BARE) == tuple(verbs())


@pytest.mark.parametrize("verb", BARE)
def test_a_verb_without_torch_works_or_says_that_it_needs_it(tmp_path, verb):
    answers = [shell(verb, *BARE[verb])]
    if verb in ("plan", "rows"):
        answers.append(blocked("torch", MISSING, verb, *BARE[verb], where=tmp_path))
    for answer in answers:
        assert "Traceback" not in answer.stderr, answer.stderr
        if verb in WITHOUT:
            assert "torch" not in answer.stderr
        else:
            assert answer.returncode == 1
            said = (
                f"error: `paribus {verb}` needs torch, which is not installed; run pip install"
                " torch\n"
            )
            assert answer.stderr == said


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("tokenizers", ("corpus", "build")),
        ("safetensors", ("import", "x", "y")),
        ("scipy", ("rows", "x")),
        ("numpy", ("show",)),
    ],
)
def test_any_other_library_that_is_missing_is_named(tmp_path, library, words):
    answer = blocked(library, MISSING, *words, where=tmp_path)
    assert answer.returncode == 1
    said = (
        f"error: `paribus {words[0]}` needs {library}, which is not installed; run pip install"
        f" {library}\n"
    )
    assert answer.stderr == said


def test_a_library_that_cannot_be_loaded_says_why(tmp_path):
    answer = blocked(
        "torch", "ImportError('libtorch.so: no such file', name=name)", "doctor", where=tmp_path
    )
    assert answer.returncode == 1
    assert (
        answer.stderr
        == "error: `paribus doctor` needs torch, which cannot be loaded: libtorch.so: no such file;"
        " install it again\n"
    )


@pytest.mark.parametrize(
    "fault",
    [
        MemoryError("8 GB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8"),
    ],
)
def test_memory_that_runs_out_is_said_in_a_line(ask, monkeypatch, fault):
    def greedy(words):
        raise fault

    monkeypatch.setattr("paribus.cli._dispatch", greedy)
    answer = ask("show")
    assert (answer.status, answer.out) == (1, "")
    assert (
        answer.err
        == f"error: `paribus show` needs more memory than there is: {fault}; use smaller sizes\n"
    )


def test_other_faults_of_ours_are_not_hidden(monkeypatch):
    def wrong(words):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("paribus.cli._dispatch", wrong)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        main(["show"])


DEEP = [
    ".".join(["attention"] * 3_000) + "=1",
    f"d_ff={'[' * 3_000}{']' * 3_000}",
    f"d_ff={'[' * 90}{']' * 90}",
    f"d_ff={'{a=' * 3_000}1{'}' * 3_000}",
    f"mask={'(' * 3_000}causal{')' * 3_000}",
    f"mask={'by_head(' * 3_000}causal{')' * 3_000}",
    "mask=" + " & ".join(["causal"] * 3_000),
]


@pytest.mark.parametrize("setting", DEEP)
@pytest.mark.parametrize(
    "words", [("show", "gpt2"), ("plan", "mixed-attention"), ("corpus", "show")]
)
def test_a_setting_that_lies_deep_is_refused_in_a_line(ask, words, setting):
    answer = ask(*words, "--set", setting)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert "Traceback" not in answer.err


def test_an_option_called_like_its_value_is_named(verb_modules: list[Path]) -> None:
    """Some versions of typer take the name of the value for that of the option."""
    unnamed = []
    for path in verb_modules:
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef):
                unnamed += [f"{path.name}: {name}" for name in unnamed_options(function)]
    assert verb_modules
    assert unnamed == []


@pytest.fixture
def verb_modules() -> list[Path]:
    return sorted(Path(cli.__file__).parent.rglob("*.py"))


def unnamed_options(function: ast.FunctionDef) -> Iterator[str]:
    """Parameters whose option has no name of its own, and a value of the same name."""
    for parameter in function.args.args:
        for call in ast.walk(parameter.annotation or ast.Constant(None)):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "typer.Option":
                values = {one.arg: ast.unparse(one.value) for one in call.keywords}
                metavar = values.get("metavar", "").strip("'").lower()
                if not call.args and metavar == parameter.arg:
                    yield parameter.arg
