"""The page docs/reference.md: every table of a run file and of a design, with its fields."""

from __future__ import annotations

from collections.abc import Iterator

from paribus.spec.fields import FieldEntry, TableEntry, all_tables

COMMAND = "make reference"
HEAD = f"""\
# Reference of every field

This page is generated from the specs under `src/paribus/spec/`. `{COMMAND}` writes it anew.
`paribus fields PATH` prints the same in a terminal, such as `paribus fields training.optimizer`.

A run file has the tables `architecture`, `corpus`, `objective` and `training`. A design has the
keys of `design` at its top, and its `base` and `arms` have the tables of a run. The file of a task
has the keys of one kind of `task` at its top, and a design of conversations those of `turns`.

- **kind**: write the name alone (`positions = "rotary"`), or a table with the key `kind` and the
  fields of that kind (`positions = {{ kind = "rotary", theta = 500000.0 }}`). A table without
  `kind` is of the default kind.
- **required**: there is no default. **none**: the field may be left out, and the text says what
  happens then.
- **Paths of files** are relative to the file that names them. In a mapping or in `--set` they are
  relative to the working directory. `~` is the home directory.
- An unknown key or value is refused, and the message names the nearest one that exists.
"""


def reference_page() -> str:
    """The whole page as Markdown."""
    lines = [HEAD]
    path = ""
    for table in all_tables():
        if "." not in table.path and table.path != path:
            lines += [f"## {table.path}", ""]
        path = table.path
        lines += _table_lines(table)
    return "\n".join(lines)


def _table_lines(table: TableEntry) -> Iterator[str]:
    if table.kind is not None:
        yield f'### `{table.path}`, kind `"{table.kind}"`\n'
    elif "." in table.path:
        yield f"### `{table.path}`\n"
    yield f"{_cell(table.about)}\n"
    if table.fields:
        yield "| key | type | default | what it does | values |\n|---|---|---|---|---|"
        yield from map(_row, table.fields)
        yield ""


def _row(field: FieldEntry) -> str:
    cells = (f"`{field.key}`", field.type, _default(field), field.about, field.values)
    return f"| {' | '.join(map(_cell, cells))} |"


def _default(field: FieldEntry) -> str:
    if field.default[0] in '"[{0123456789':
        return f"`{field.default}`"
    return field.default


def _cell(text: str) -> str:
    """A text in which no mark ends a cell."""
    return text.replace("|", "\\|")
