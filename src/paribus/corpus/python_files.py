"""What every installation has to read: the standard library, torch, numpy and scipy, as they
are installed here.
"""

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
from paribus.corpus.parallel import map_in_order
from paribus.spec.corpus import InstalledPython
from paribus.watcher import Watcher

PACKAGES = ("torch", "numpy", "scipy")
EXCLUDED_FOLDERS = {"__pycache__", "site-packages", "dist-packages"}
SLICE_ONE_IN = 10  # files of the slice
ALWAYS_IN_SLICE = "python/pydoc_data/topics.py"  # in the slice too: the best English of all
FILES_PER_PROCESS = 64  # files one process reads


def installed_files(source: InstalledPython) -> dict[str, Path]:
    """Every Python file meant, by its name, such as `torch/nn/functional.py`; the same on every
    machine.
    """
    roots = {"python": Path(sysconfig.get_paths()["stdlib"])}
    for package in PACKAGES:
        roots[package] = _package_folder(package)
    files = {}
    for package, root in roots.items():
        for name, path in _python_files_in(package, root):
            if source.part == "all" or in_slice(name):
                files[name] = path
    return files


def in_slice(name: str) -> bool:
    """Whether a file is of the slice, by its name alone."""
    return name == ALWAYS_IN_SLICE or hashlib.sha256(name.encode()).digest()[0] % SLICE_ONE_IN == 0


def installation_identity(source: InstalledPython) -> dict[str, str | int]:
    """Which installation this is, without reading it."""
    files = installed_files(source)
    size = sum(path.stat().st_size for path in files.values())
    versions = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **versions, "files": len(files), "bytes": size}


def python_documents(
    source: InstalledPython, progress: Watcher, n_workers: int
) -> Iterator[Document]:
    """Read by processes of their own, in an order that does not depend on how many there are."""
    files = list(installed_files(source).values())
    what = source.kind.removeprefix("python-")
    with (
        progress.stage(f"reading {source.kind}", len(files)),
        ThreadPoolExecutor(n_workers) as pool,
    ):
        batches = []
        for first in range(0, len(files), FILES_PER_PROCESS):
            batches.append(files[first : first + FILES_PER_PROCESS])
        for answer in map_in_order(
            pool, lambda paths: _extract_documents(paths, what), batches, n_workers
        ):
            for line in answer.splitlines():
                progress.advance(1)
                for texts in json.loads(line):
                    yield Document(*(text.encode(errors="replace") for text in texts))


def _extract_documents(paths: list[Path], extractor: str) -> bytes:
    program = [
        sys.executable,
        "-I",
        "-W",
        "ignore",
        "-X",
        "utf8",
        str(Path(__file__).parent / "python_extract.py"),
        extractor,
    ]
    request = ""
    for path in paths:
        request += json.dumps(str(path)) + "\n"
    answer = subprocess.run(program, input=request.encode(), stdout=subprocess.PIPE, check=True)
    return answer.stdout


def _package_folder(package: str) -> Path:
    spec = find_spec(package)  # finds without importing
    assert spec is not None, f"{package} is a dependency of paribus"
    assert spec.origin is not None
    return Path(spec.origin).parent


def _python_files_in(package: str, root: Path) -> Iterator[tuple[str, Path]]:
    for here, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - EXCLUDED_FOLDERS)
        for name in sorted(names):
            if name.endswith(".py"):
                path = Path(here, name)
                yield f"{package}/{path.relative_to(root).as_posix()}", path
