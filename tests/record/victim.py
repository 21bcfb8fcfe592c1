"""A run that is killed: each step hashes the last, so that a wrong resume shows in every later row.

`python victim.py ROOT N_STEPS` runs or resumes it; `chain` is what it must have written.
"""

import hashlib
import sys
from pathlib import Path

from paribus.record import opened

STAGES = [{"name": "victim"}]
EVERY = 4  # steps to a checkpoint
BALLAST_BYTES = 1 << 20


def after(state: str, step: int) -> str:
    return hashlib.sha256(f"{state} {step}".encode()).hexdigest()


def row(state: str, step: int) -> dict[str, object]:
    return {"step": step, "state": state}


def chain(n_steps: int) -> list[dict[str, object]]:
    state, rows = "", []
    for step in range(1, n_steps + 1):
        state = after(state, step)
        rows.append(row(state, step))
    return rows


def fill(folder: Path, state: str) -> None:
    (folder / "state.txt").write_text(state)
    with open(folder / "ballast.bin", "wb", buffering=0) as file:
        for _ in range(16):
            file.write(bytes(BALLAST_BYTES // 16))


def main(root: Path, n_steps: int) -> None:
    with opened(root, STAGES, {"code": "one"}, name="victim") as run:
        print("open", *run.leftovers, flush=True)
        found = run.latest()
        assert not found.skipped, found.skipped
        done, state = 0, ""
        if found.checkpoint:
            done, state = found.checkpoint.step, (found.checkpoint.folder / "state.txt").read_text()
        rows, _ = run.rows(done if done else -1)
        with rows:
            for step in range(done + 1, n_steps + 1):
                state = after(state, step)
                rows.write(row(state, step))
                if step % EVERY == 0:
                    run.save(step, lambda folder, state=state: fill(folder, state), score=1 / step)
        run.finish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
