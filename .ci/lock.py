"""Pin every package that `make` installs: constraints.txt, and requirements.lock with hashes.

`make lock` runs this. Hashes are those of the package index, for both architectures and every
Python that is supported. torch is left out of the lock: which build of it fits differs between
machines.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
LOCK = ROOT / "requirements.lock"
EVERYTHING = (
    "--group", "dev", "--group", "browser", ".[report,serve,eval,data,cluster,hf]",
    "hatchling", "editables",
)  # fmt: skip
DEMO = (".[report]", "hatchling", "editables", "pip")  # what `make LOCKED=1 demo` installs
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (
    ("manylinux_2_28_x86_64", "manylinux2014_x86_64"),
    ("manylinux_2_28_aarch64", "manylinux2014_aarch64"),
)
BY_TORCH = re.compile(r"torch$|triton$|nvidia-|cuda-")  # not the same on every machine

Pin = tuple[str, str]  # a name as the index spells it, and a version


def resolved(*arguments: str) -> list[dict]:
    """What pip would install, as it reports it."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--report", report.name, *arguments]
        subprocess.run(command, cwd=ROOT, check=True)
        return json.load(report)["install"]


def pins_of(packages: Iterable[dict]) -> list[Pin]:
    """Name and version of each, without paribus itself."""
    pins: set[Pin] = set()
    for package in packages:
        metadata = package["metadata"]
        name = re.sub(r"[-_.]+", "-", metadata["name"]).lower()
        if name != "paribus":
            pins.add((name, metadata["version"]))
    return sorted(pins)


def hashes_of(pins: Sequence[Pin]) -> dict[Pin, set[str]]:
    """The sha256 of every file of the index that an installation may take."""
    hashes: dict[Pin, set[str]] = {pin: set() for pin in pins}
    for python in PYTHONS:
        for tags in PLATFORMS:
            with tempfile.TemporaryDirectory() as target:
                choice = ["--isolated", "--target", target, "--only-binary=:all:"]
                choice += ["--python-version", python]
                for tag in tags:
                    choice += ["--platform", tag]
                wanted = [f"{name}=={version}" for name, version in pins]
                for package in resolved("--no-deps", *choice, *wanted):
                    (pin,) = pins_of([package])
                    hashes[pin].add(package["download_info"]["archive_info"]["hashes"]["sha256"])
    return hashes


def main() -> None:
    head = "# The versions paribus is tested with; `make lock` writes this file.\n"
    every = pins_of(resolved("--constraint", str(CONSTRAINTS), *EVERYTHING, "pip"))
    own = [(name, version.partition("+")[0]) for name, version in every]
    pinned = "".join(f"{name}=={version}\n" for name, version in own)
    CONSTRAINTS.write_text(head + pinned)
    demo = pins_of(resolved("--constraint", str(CONSTRAINTS), *DEMO))
    hashes = hashes_of([pin for pin in demo if not BY_TORCH.match(pin[0])])
    lines = [head.replace("tested with;", "tested with, and their files, without torch;")]
    for (name, version), files in hashes.items():
        lines.append(f"{name}=={version}")
        lines.extend(f" \\\n    --hash=sha256:{sha}" for sha in sorted(files))
        lines.append("\n")
    LOCK.write_text("".join(lines))


if __name__ == "__main__":
    main()
