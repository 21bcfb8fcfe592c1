"""What every installation has to read, read from this one."""

import ast
import inspect
import platform
import re
import textwrap

import numpy as np
import pytest
import torch
from small_corpus import all_documents, build_small_corpus

from paribus.corpus.python_extract import extract_documents
from paribus.corpus.python_files import in_slice, installation_identity, installed_files
from paribus.spec import PythonCode, PythonDocs, PythonSummaries

SOURCE = '''
"""Module words."""

class One:
    """Class words."""

    def method(self, x):
        """Method summary.

        More of it.
        """
        return x  # kept

    @staticmethod
    async def other():
        "Other summary."
        try:
            pass
        except ValueError:
            def inner():
                """Inner summary."""
                return 1

def bare():
    """Only words."""

def same_line(): "Said here."; return 1

def silent():
    return 2

add_docstr(thing, r"""Hung words.""".format(1))
note("not words at all")
'''


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    return build_small_corpus(tmp_path_factory.mktemp("docs"), {"kind": "python-docs"})


def test_docstrings_are_found_wherever_they_stand(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(SOURCE)
    found = [text for (text,) in extract_documents(str(path), "docs")]
    assert found == [
        "Module words.",
        "Class words.",
        "Method summary.\n\nMore of it.",
        "Other summary.",
        "Inner summary.",
        "Only words.",
        "Said here.",
        "Hung words.",
    ]


def test_a_summary_goes_with_its_function_without_the_docstring(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(SOURCE)
    found = dict(extract_documents(str(path), "summaries"))
    assert list(found.values()) == ["Method summary.", "Other summary.", "Inner summary."]
    assert "def method(self, x):\n    return x  # kept" in found
    for function in found:
        ast.parse(function)
        assert "summary" not in function.partition("def inner")[0]


def test_topics_are_documents_of_their_own(tmp_path):
    path = tmp_path / "topics.py"
    path.write_text("topics = {'a': 'About a.', 'b': 'About ' 'b.'}\n")
    assert extract_documents(str(path), "docs") == [("About a.",), ("About b.",)]


@pytest.mark.parametrize(
    "text", [b"def f(:", b"\xff\xfe = 1", b"# coding: no-such\n", b"x = '\x00'", b""]
)
def test_what_is_not_python_of_this_version_holds_nothing(tmp_path, text):
    path = tmp_path / "a.py"
    path.write_bytes(text)
    assert extract_documents(str(path), "docs") == []


def test_files_in_another_encoding_are_read_in_it(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes("# coding: latin-1\n'''é'''\n".encode("latin-1"))
    assert extract_documents(str(path), "docs") == [("é",)]
    assert extract_documents(str(path), "code") == [("# coding: latin-1\n'''é'''\n",)]


def test_the_slice_is_a_fixed_tenth_of_the_files_of_all_four():
    every, some = installed_files(PythonCode(part="all")), installed_files(PythonCode(part="slice"))
    assert 0.08 < len(some) / len(every) < 0.12
    assert {name.split("/")[0] for name in some} == {"python", "torch", "numpy", "scipy"}
    assert "python/pydoc_data/topics.py" in some
    assert {"torch/nn/functional.py", "numpy/linalg/_linalg.py", "python/re/__init__.py"} <= set(
        every
    )
    assert not any("site-packages" in name for name in every)
    assert [in_slice(f"python/{n}.py") for n in range(30)] == [n in (9, 20) for n in range(30)]


def test_the_versions_installed_are_the_identity():
    told = installation_identity(PythonDocs())
    assert (told["python"], told["torch"], told["numpy"]) == (
        platform.python_version(),
        torch.__version__,
        np.__version__,
    )


def test_the_slice_of_docs_holds_text_known_to_be_there(docs):
    found = {text for (text,) in all_documents(docs, "train")}
    assert any(
        "The “if” statement is used for conditional execution" in text
        or 'The "if" statement is used for conditional execution' in text
        for text in found
    )
    (train, *_) = docs.index.sources[0].splits.values()
    assert train.n_documents > 2000
    assert train.n_bytes > 1_000_000


def test_every_docstring_of_a_file_of_the_slice_is_read(docs):
    found = {text for (text,) in all_documents(docs, "train")}
    name = next(
        name
        for name in installed_files(PythonDocs())
        if name.startswith("python/") and "/test/" not in name
    )
    expected = [
        text for (text,) in extract_documents(str(installed_files(PythonDocs())[name]), "docs")
    ]
    assert set(expected) <= found


def test_full_docs_hold_what_this_interpreter_says_of_itself():
    home = installed_files(PythonDocs(part="all"))
    words = [text for (text,) in extract_documents(str(home["python/re/__init__.py"]), "docs")]
    assert inspect.cleandoc(re.__doc__ or "") in words
    hung = [text for (text,) in extract_documents(str(home["torch/_torch_docs.py"]), "docs")]
    assert any(text.startswith("abs(input") for text in hung)
    pairs = dict(extract_documents(str(home["python/textwrap.py"]), "summaries"))
    ((source, summary),) = [pair for pair in pairs.items() if pair[0].startswith("def dedent(")]
    assert summary == "Remove any common leading whitespace from every line in `text`."
    assert source.splitlines()[0] == inspect.getsource(textwrap.dedent).splitlines()[0]


def test_summaries_are_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr("paribus.corpus.python_files.SLICE_ONE_IN", 150)
    corpus = build_small_corpus(tmp_path, {"kind": "python-summaries"}, n_workers=1)
    for source, summary in all_documents(corpus, "train"):
        assert "def " in source
        assert "\n" not in summary
    assert isinstance(corpus.spec.sources[0], PythonSummaries)


def test_code_is_the_files_themselves_however_many_read_them(tmp_path, monkeypatch):
    monkeypatch.setattr("paribus.corpus.python_files.SLICE_ONE_IN", 150)
    monkeypatch.setattr("paribus.corpus.python_files.FILES_PER_PROCESS", 5)
    one, three = (
        build_small_corpus(tmp_path / str(n), {"kind": "python-code"}, n_workers=n) for n in (1, 3)
    )
    assert one.fingerprint == three.fingerprint
    texts = [text for (text,) in all_documents(one, "train")]
    expected = [
        path.read_text("utf-8")
        for path in installed_files(PythonCode()).values()
        if path.stat().st_size
    ]
    assert texts == [text for text in expected if text.strip()]


def test_a_docstring_is_labelled_with_what_it_documents(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(SOURCE)
    found = {
        text.partition("\n")[0]: label for text, label in extract_documents(str(path), "labels")
    }
    assert found == {
        "Module words.": "module",
        "Class words.": "class",
        "Method summary.": "method",
        "Other summary.": "method",
        "Inner summary.": "function",
        "Only words.": "function",
        "Said here.": "function",
    }


def test_a_name_is_tagged_with_what_it_does(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("def f(a, b=1):\n    a.x = f(b, b=a.y(3.5))\n    return 'some words' + b . z\n")
    found = dict(extract_documents(str(path), "tags"))
    assert found == {
        "def f ( a , b = 1 ) :": (
            "other other other parameter other parameter other other other other"
        ),
        "a . x = f ( b , b = a . y ( 3.5 ) )": (
            "read other attribute other called other read other keyword other read other called"
            " other other other other"
        ),
        "return '' + b . z": "other other other read other attribute",
    }


def test_labels_and_tags_of_this_installation_are_a_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr("paribus.corpus.python_files.SLICE_ONE_IN", 50)
    labels = build_small_corpus(tmp_path / "labels", {"kind": "python-labels"})
    assert {target for _, target in all_documents(labels, "train")} == {
        "module",
        "class",
        "method",
        "function",
    }
    tags = build_small_corpus(tmp_path / "tags", {"kind": "python-tags"})
    for words, own in all_documents(tags, "train"):
        assert len(words.split(" ")) == len(own.split(" "))
