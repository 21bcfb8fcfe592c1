"""What drawing needs beside the core, asked for by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from paribus.errors import SpecError, UnsupportedError

REQUIRED_PACKAGES = {
    "html": ("altair", "vl_convert", "jinja2"),
    "md": (),
    "csv": (),
    "tex": (),
    "svg": ("altair", "vl_convert"),
    "png": ("altair", "vl_convert"),
}
FORMATS = tuple(REQUIRED_PACKAGES)


def parse_formats(
    format_list: str | Iterable[str], choices: Sequence[str] = FORMATS
) -> tuple[str, ...]:
    """The formats asked for, each once, in the order of `choices`."""
    if isinstance(format_list, str):
        names = format_list.split(",")
    else:
        names = list(format_list)
    formats = set(map(str.strip, names))
    unknown = sorted(formats - set(choices))
    if unknown:
        raise SpecError(
            f"--format has {unknown[0]!r}; use one or more of {', '.join(choices)}, separated by"
            " commas"
        )
    return tuple(sorted(formats, key=choices.index))


def require_formats(format_names: Iterable[str]) -> None:
    """UnsupportedError where a format needs a package that is not there."""
    for name in format_names:
        lack = missing_package(name)
        if lack is not None:
            raise UnsupportedError(lack)


def missing_package(name: str) -> str | None:
    """What a format needs and is not there, and how to get it; None where all is there."""
    for package in REQUIRED_PACKAGES[name]:
        if find_spec(package) is None:
            return (
                f"--format {name} needs {package.replace('_', '-')}, which is not installed; run"
                " pip install 'paribus[report]'"
            )
    return None
