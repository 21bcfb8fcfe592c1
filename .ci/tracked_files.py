"""No tracked file is a binary above 1 MB, or an archive that docs/results/archives.txt does not
name. Prints what is, and exits with status 1.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MANIFEST = "docs/results/archives.txt"
MAX_BINARY_BYTES = 1_000_000
ARCHIVES = {".whl", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".jar", ".egg"}


def tracked_faults(root: Path) -> list[str]:
    """What does not belong into a repository, a line each."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True)
    tracked = [name for name in listed.stdout.decode().split("\0") if (root / name).is_file()]
    named = (root / MANIFEST).read_text("utf-8").split()
    faults = []
    for name in tracked:
        if name in named:
            continue
        content = (root / name).read_bytes()
        if Path(name).suffix in ARCHIVES:
            faults.append(
                f"{name}: an archive that {MANIFEST} does not name; remove it, or name it there"
            )
        elif len(content) > MAX_BINARY_BYTES and b"\0" in content:
            faults.append(
                f"{name}: a binary of {len(content):,} bytes; keep it outside of the repository"
            )
    for name in named:
        if name not in tracked:
            faults.append(f"{MANIFEST}: names {name}, which is not tracked; remove the line")
    return faults


if __name__ == "__main__":
    found = tracked_faults(Path(__file__).parents[1])
    print("\n".join(found))
    sys.exit(1 if found else 0)
