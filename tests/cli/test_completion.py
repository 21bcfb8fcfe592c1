"""Completion in a shell: verbs without loading them, options of the verb that is typed."""

import sys

import pytest

from paribus.cli import verbs


@pytest.fixture
def completed(ask, monkeypatch):
    """What bash would offer behind a line."""

    def one(line: str) -> list[str]:
        monkeypatch.setenv("_PARIBUS_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        return ask().out.split()

    return one


def test_every_verb_is_offered(completed):
    assert set(verbs()) <= set(completed("paribus "))


def test_a_verb_is_completed_without_loading_any(completed, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("paribus.cli.fields")]:
        monkeypatch.delitem(sys.modules, name)
    assert completed("paribus fie") == ["fields"]
    assert "paribus.cli.fields" not in sys.modules


def test_options_of_a_verb_are_offered(completed):
    assert completed("paribus fields --j") == ["--json"]


@pytest.mark.parametrize(
    ("shell", "line"), [("bash", "complete -o default"), ("zsh", "#compdef paribus")]
)
def test_what_makes_a_shell_ask_is_shown(ask, monkeypatch, shell, line):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    answer = ask("--show-completion", shell)
    assert answer.status == 0
    assert line in answer.out
    assert "_PARIBUS_COMPLETE" in answer.out
