"""What every installation has to read: the standard library, torch, numpy and scipy, as they are installed here."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from paribus.corpus.documents import Document
from paribus.corpus.parallel import in_order
from paribus.corpus.progress import Progress
from paribus.spec.corpus import Installed

PACKAGES = ("torch", "numpy", "scipy")
OUTSIDE = {"__pycache__", "site-packages", "dist-packages"}
ONE_IN = 10  # files of the slice
ALWAYS = "python/pydoc_data/topics.py"  # in the slice too: the best English of all
N_TOGETHER = 64  # files one process reads


def files(source: Installed) -> dict[str, Path]:
    """Every Python file meant, by its name, such as `torch/nn/functional.py`; the same on every machine."""
    roots = {"python": Path(sysconfig.get_paths()["stdlib"])} | {name: _home(name) for name in PACKAGES}
    every = {name: path for package, root in roots.items() for name, path in _inside(package, root)}
    return {name: path for name, path in every.items() if source.part == "all" or in_slice(name)}


def in_slice(name: str) -> bool:
    """Whether a file is of the slice, by its name alone."""
    return name == ALWAYS or hashlib.sha256(name.encode()).digest()[0] % ONE_IN == 0


def identity(source: Installed) -> dict[str, str | int]:
    """Which installation this is, without reading it."""
    found = files(source)
    size = sum(path.stat().st_size for path in found.values())
    versions = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **versions, "files": len(found), "bytes": size}


def documents(source: Installed, progress: Progress, n_workers: int) -> Iterator[Document]:
    """Read by processes of their own, in an order that does not depend on how many there are."""
    found = list(files(source).values())
    what = source.kind.removeprefix("python-")
    with progress.stage(f"reading {source.kind}", len(found)), ThreadPoolExecutor(n_workers) as pool:
        together = [found[at : at + N_TOGETHER] for at in range(0, len(found), N_TOGETHER)]
        for answer in in_order(pool, lambda paths: _read(paths, what), together, n_workers):
            for line in answer.splitlines():
                progress.advance(1)
                for texts in json.loads(line):
                    yield Document(*(text.encode(errors="replace") for text in texts))


def _read(paths: list[Path], what: str) -> bytes:
    program = [sys.executable, "-I", "-W", "ignore", "-X", "utf8", str(Path(__file__).parent / "extraction.py"), what]
    asked = "".join(json.dumps(str(path)) + "\n" for path in paths)
    return subprocess.run(program, input=asked.encode(), stdout=subprocess.PIPE, check=True).stdout


def _home(package: str) -> Path:
    found = find_spec(package)  # finds without importing
    assert found is not None, f"{package} is a dependency of paribus"
    assert found.origin is not None
    return Path(found.origin).parent


def _inside(package: str, root: Path) -> Iterator[tuple[str, Path]]:
    for here, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in OUTSIDE)
        for name in sorted(names):
            if name.endswith(".py"):
                path = Path(here, name)
                yield f"{package}/{path.relative_to(root).as_posix()}", path
