"""What a bare checkout promises: pinned packages, a Python that fits, and no large binaries."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"^([a-z0-9-]+)==(\S+?)( \\)?$", re.M)


def pins(name: str) -> dict[str, str]:
    return {pin[1]: pin[2] for pin in PIN.finditer((ROOT / name).read_text())}


def tracked_faults(folder: Path) -> str:
    spec = importlib.util.spec_from_file_location("tracked", ROOT / ".ci" / "tracked_files.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return "\n".join(module.tracked_faults(folder))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "docs" / "results" / "archives.txt").write_text("kept.csv.xz\n")
    (tmp_path / "kept.csv.xz").write_bytes(b"\xfd7zXZ\0")
    (tmp_path / "code.py").write_text("text = 1\n" * 200_000)
    return tmp_path


def test_text_and_named_archives_may_be_tracked(checkout: Path) -> None:
    subprocess.run(["git", "-C", checkout, "add", "--all"], check=True)
    assert tracked_faults(checkout) == ""


def test_large_binaries_and_archives_without_a_name_are_refused(checkout: Path) -> None:
    (checkout / "tool-1.0-py3-none-any.whl").write_bytes(b"PK\3\4")
    (checkout / "weights.bin").write_bytes(bytes(1_000_001))
    (checkout / "kept.csv.xz").unlink()
    subprocess.run(["git", "-C", checkout, "add", "--all"], check=True)
    assert tracked_faults(checkout).splitlines() == [
        "tool-1.0-py3-none-any.whl: an archive that docs/results/archives.txt does not name;"
        " remove it, or name it there",
        "weights.bin: a binary of 1,000,001 bytes; keep it outside of the repository",
        "docs/results/archives.txt: names kept.csv.xz, which is not tracked; remove the line",
    ]


def test_the_lock_has_hashes_for_pinned_versions_and_leaves_torch_out() -> None:
    locked, pinned = pins("requirements.lock"), pins("constraints.txt")
    assert {"pydantic", "typer", "vl-convert-python", "hatchling"} < set(locked)
    assert "torch" not in locked
    assert {name: pinned[name] for name in locked} == locked
    text = (ROOT / "requirements.lock").read_text()
    assert (
        text.count("==") == len(locked) == len(re.findall(r"== ?\S+ \\\n    --hash=sha256:", text))
    )


def test_make_refuses_an_old_python_before_it_installs_anything(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    old = tmp_path / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.12\nexit 1\n')
    old.chmod(0o755)
    made = subprocess.run(
        ["make", f"PYTHON={old}", "demo"], cwd=tmp_path, capture_output=True, text=True
    )
    assert made.returncode != 0
    assert f"PYTHON is {old}, which is Python 3.10.12" in made.stderr
    assert "paribus needs Python 3.11 or newer" in made.stderr
    assert not (tmp_path / ".venv").exists()
