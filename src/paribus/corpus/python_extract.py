"""Docstrings, code and summaries out of Python files: parsed with `ast`, never imported.

Run as a program of its own, so that many can work at once: `python -I python_extract.py WHAT <
paths`. It imports nothing of ours; each line it writes is the JSON list of one file's documents,
each a list of one text or of two.
"""

import ast
import inspect
import io
import json
import sys
import textwrap
import tokenize
from collections.abc import Callable, Iterator

Texts = tuple[str, ...]  # running text alone, or a source and its target
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

# What hangs a docstring on something written in C, in torch, numpy and scipy.
DOCSTRING_SETTERS = {
    "add_docstr",
    "add_docstr_all",
    "_add_docstr",
    "add_newdoc",
    "add_newdoc_for_scalar_type",
}
TOPICS_NAME = "topics"  # the dictionary in pydoc_data/topics.py


def docstrings(text: str) -> Iterator[Texts]:
    """Every docstring of a file on its own, and the topics of `help()`."""
    tree = ast.parse(text)
    for node in (tree, *_statements(tree)):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield (ast.get_docstring(node) or "",)
            case ast.Expr(value=ast.Call(func=function, args=[*_, argument])) if (
                _called_name(function) in DOCSTRING_SETTERS
            ):
                yield (inspect.cleandoc(max(_string_literals(argument), key=len, default="")),)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(values=values)) if (
                name == TOPICS_NAME
            ):
                for value in values:
                    for topic in _string_literals(value):
                        yield (topic,)


def whole_file(text: str) -> Iterator[Texts]:
    """The whole file."""
    yield (text,)


def function_summaries(text: str) -> Iterator[Texts]:
    """Each documented function without its docstring, and the first line of that."""
    lines = text.splitlines()
    for node in _statements(ast.parse(text)):
        if isinstance(node, FunctionNode) and len(node.body) > 1:
            summary = (ast.get_docstring(node) or "").partition("\n")[0].strip()
            yield _without_docstring(node, lines), summary


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements in their order; docstrings are to be found without looking into
    expressions.
    """
    for block in ("body", "handlers", "cases", "orelse", "finalbody"):
        inside = getattr(tree, block, ())
        for node in inside if isinstance(inside, list) else ():
            yield node
            yield from _statements(node)


def _without_docstring(node: FunctionNode, lines: list[str]) -> str:
    """A function's lines without its docstring; nothing where the docstring shares a line with
    code.
    """
    docstring, following = node.body[0], node.body[1]
    first, last = docstring.lineno - 1, docstring.end_lineno or docstring.lineno
    if first < node.lineno or following.lineno <= last:
        return ""
    code = lines[node.lineno - 1 : first] + lines[last : node.end_lineno]
    return textwrap.dedent("\n".join(code))


def _called_name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _string_literals(node: ast.expr) -> list[str]:
    """What is written inside an expression: plain, in a tuple, or before `.format(…)`."""
    literals = []
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            literals.append(part.value)
    return literals


EXTRACTORS: dict[str, Callable[[str], Iterator[Texts]]] = {
    "docs": docstrings,
    "code": whole_file,
    "summaries": function_summaries,
}


def extract_documents(path: str, extractor: str) -> list[Texts]:
    """The documents of one file; none where it is not Python of this version, as some of its
    tests are not.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        documents = []
        for texts in EXTRACTORS[extractor](data.decode(encoding)):
            if all(map(str.strip, texts)):
                documents.append(texts)
        return documents
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(extract_documents(json.loads(line), sys.argv[1])), flush=True)
