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
FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)
OTHER_TAG = "other"  # of what is no name: keywords, numbers, operators
STRING_WORD = "''"  # stands for a text in a program
MIN_WORDS, MAX_WORDS = 6, 64  # of a statement with tags
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


def labelled_docstrings(text: str) -> Iterator[Texts]:
    """Every docstring, and what it documents."""
    tree = ast.parse(text)
    yield ast.get_docstring(tree) or "", "module"
    yield from _labelled_docstrings(tree, in_class=False)


def _labelled_docstrings(tree: ast.AST, in_class: bool) -> Iterator[Texts]:
    for node in _statements(tree, skipped=(ast.ClassDef, *FUNCTION_NODES)):
        match node:
            case ast.ClassDef():
                yield ast.get_docstring(node) or "", "class"
                yield from _labelled_docstrings(node, in_class=True)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield ast.get_docstring(node) or "", "method" if in_class else "function"
                yield from _labelled_docstrings(node, in_class=False)


def tagged_statements(text: str) -> Iterator[Texts]:
    """The words of each simple statement and of each head of a function, and a tag for each, all
    with spaces between them.
    """
    tags = _name_tags(ast.parse(text))
    words: list[tuple[str, str]] = []
    if not text.isascii():  # the parser counts bytes, the tokenizer letters
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.OP):
            words.append((token.string, tags.get(token.start, OTHER_TAG)))
        elif token.type == tokenize.STRING:
            words.append((STRING_WORD, OTHER_TAG))
        elif token.type == tokenize.NEWLINE:
            if MIN_WORDS <= len(words) <= MAX_WORDS and any(tag != OTHER_TAG for _, tag in words):
                yield " ".join(word for word, _ in words), " ".join(tag for _, tag in words)
            words = []


def _name_tags(tree: ast.AST) -> dict[tuple[int, int], str]:
    """What each name of a file does, by its line and column."""
    tags: dict[tuple[int, int], str] = {}
    called = set[int]()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function):
                called.add(id(function))
            case ast.arg():
                tags[node.lineno, node.col_offset] = "parameter"
            case ast.keyword(arg=str()):
                tags[node.lineno, node.col_offset] = "keyword"
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Load()):
                tag = "called" if id(node) in called else "read"
                tags[node.lineno, node.col_offset] = tag
            case ast.Name():
                tags[node.lineno, node.col_offset] = "assigned"
            case ast.Attribute(end_lineno=int(line), end_col_offset=int(end)):
                tag = "called" if id(node) in called else "attribute"
                tags[line, end - len(node.attr.encode())] = tag
    return tags


def _statements(tree: ast.AST, skipped: tuple[type[ast.AST], ...] = ()) -> Iterator[ast.AST]:
    """All statements in their order, without those inside the `skipped` ones; docstrings are to
    be found without looking into expressions.
    """
    for block in ("body", "handlers", "cases", "orelse", "finalbody"):
        inside = getattr(tree, block, ())
        for node in inside if isinstance(inside, list) else ():
            yield node
            if not isinstance(node, skipped):
                yield from _statements(node, skipped)


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
    "labels": labelled_docstrings,
    "tags": tagged_statements,
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
