"""No tracked file is a binary above 1 MB, or an archive that docs/results/archives.txt does not
name. Prints what is, and exits with status 1.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MANIFEST = ROOT / "docs" / "results" / "archives.txt"
MAX_BINARY_BYTES = 1_000_000
ARCHIVES = {".whl", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".jar", ".egg"}


def fault_of(name: str, named: set[str]) -> str | None:
    """Why a tracked file does not belong into the repository; None where it does."""
    path = ROOT / name
    if not path.is_file() or path.is_symlink():
        return None
    if path.suffix in ARCHIVES and name not in named:
        return (
            "an archive that docs/results/archives.txt does not name; remove it, or name it there"
        )
    content = path.read_bytes()
    if b"\0" in content[:8192] and len(content) > MAX_BINARY_BYTES and name not in named:
        return (
            f"a binary of {len(content):,} bytes; remove it, or keep it outside of the repository"
        )
    return None


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    named = set(MANIFEST.read_text("utf-8").split())
    faults = []
    for name in listed.stdout.decode().split("\0"):
        fault = fault_of(name, named) if name else None
        if fault is not None:
            faults.append(f"{name}: {fault}")
    faults.extend(
        f"{name}: named in {MANIFEST.name}, and not there"
        for name in sorted(named)
        if not (ROOT / name).is_file()
    )
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
