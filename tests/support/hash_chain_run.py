"""A run that is killed: each step hashes the last, so that a wrong resume shows in every later
row.

`python hash_chain_run.py ROOT N_STEPS` runs or resumes it; `chain_rows` is what it must have
written.
"""

import hashlib
import sys
from pathlib import Path

from paribus.record import open_run_folder

RUN_STAGES = [{"name": "victim"}]
CHECKPOINT_EVERY = 4  # steps to a checkpoint
BALLAST_BYTES = 1 << 20


def next_state(state: str, step: int) -> str:
    return hashlib.sha256(f"{state} {step}".encode()).hexdigest()


def chain_row(state: str, step: int) -> dict[str, object]:
    return {"step": step, "state": state}


def chain_rows(n_steps: int) -> list[dict[str, object]]:
    state, rows = "", []
    for step in range(1, n_steps + 1):
        state = next_state(state, step)
        rows.append(chain_row(state, step))
    return rows


def write_checkpoint_files(folder: Path, state: str) -> None:
    (folder / "state.txt").write_text(state)
    with open(folder / "ballast.bin", "wb", buffering=0) as file:
        for _ in range(16):
            file.write(bytes(BALLAST_BYTES // 16))


def main(root: Path, n_steps: int) -> None:
    with open_run_folder(root, RUN_STAGES, {"code": "one"}, name="victim") as run:
        print("open", *run.leftovers, flush=True)
        found = run.latest_checkpoint()
        assert not found.skipped, found.skipped
        done, state = 0, ""
        if found.checkpoint:
            done, state = found.checkpoint.step, (found.checkpoint.folder / "state.txt").read_text()
        rows, _ = run.open_rows(done if done else -1)
        with rows:
            for step in range(done + 1, n_steps + 1):
                state = next_state(state, step)
                rows.write(chain_row(state, step))
                if step % CHECKPOINT_EVERY == 0:
                    run.commit_checkpoint(
                        step,
                        lambda folder, state=state: write_checkpoint_files(folder, state),
                        score=1 / step,
                    )
        run.finish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
