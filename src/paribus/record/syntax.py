"""A hash of what code says, not of how it is written: comments, docstrings and layout do not
enter it.
"""

from __future__ import annotations

import ast
import hashlib
from typing import Any

# Fields that say nothing about what runs, or that only some versions of Python have.
_IGNORED_FIELDS = ("ctx", "kind", "type_comment", "type_ignores")
_WITH_DOCSTRING = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)


def syntax_digest(source: bytes) -> str:
    """The sha256 of a module's syntax tree, the same under every version of Python that can
    read it.
    """
    words: list[str] = []
    _add_words(ast.parse(source), words)
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def _add_words(value: Any, words: list[str]) -> None:
    """Adds a node, a list of nodes or a constant, in words that no two different ones share."""
    if isinstance(value, ast.AST):
        words.append(f"({type(value).__name__}")
        for name, field in ast.iter_fields(value):
            if name not in _IGNORED_FIELDS and field is not None and field != []:
                words.append(name)
                _add_words(_essential(value, name, field), words)
        words.append(")")
    elif isinstance(value, list):
        words.append("[")
        for one in value:
            _add_words(one, words)
        words.append("]")
    else:
        length = len(value) if isinstance(value, str) else ""
        words.append(f"{type(value).__name__} {length} {_plain(value)}")


def _plain(value: Any) -> str:
    """A constant; text as it is, for what counts as printable differs between versions."""
    if isinstance(value, str):
        return value
    return repr(value)


def _essential(node: ast.AST, name: str, field: Any) -> Any:
    """A field without what does not matter."""
    if name == "body" and isinstance(node, ast.ClassDef):
        return [statement for statement in field if not _is_text(statement)]
    if (
        name == "body"
        and isinstance(node, _WITH_DOCSTRING)
        and ast.get_docstring(node, clean=False) is not None
    ):
        return field[1:]
    if isinstance(node, ast.JoinedStr):
        return _merge_texts(field)
    return field


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is text alone, as a docstring is, or what stands below a field to
    describe it.
    """
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _merge_texts(pieces: list[ast.expr]) -> list[ast.expr]:
    """The pieces of an f-string, text beside text as one and none empty: Python 3.12 has some
    of each.
    """
    merged_pieces: list[ast.expr] = []
    for piece in pieces:
        last = merged_pieces[-1] if merged_pieces else None
        if isinstance(piece, ast.Constant) and isinstance(last, ast.Constant):
            merged_pieces[-1] = ast.Constant(f"{last.value}{piece.value}")
        elif not isinstance(piece, ast.Constant) or piece.value:
            merged_pieces.append(piece)
    return merged_pieces
