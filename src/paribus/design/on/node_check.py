"""Is a node fit for the runs of a study? Every node is asked before its first cell.

The driver writes a token into the folder of runs. A node that does not find this very token under
this very path sees another folder, and its runs would be lost there. The token says under what the
runs are to be made: code, libraries, threads and device. What a node has otherwise would differ
between runs that are compared.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from paribus.design.cells import Cell
from paribus.errors import RecordError, UnsupportedError
from paribus.record import current_environment, environment_differences
from paribus.record.disk import explained, read_json, write_json
from paribus.record.file_names import node_lock_name, node_token_name
from paribus.record.lock import hold_lock, is_locked
from paribus.runtime import cudnn_version, device_kind, select_device
from paribus.spec import resolve
from paribus.spec.price import stage_parameters
from paribus.spec.run import RunSpec
from paribus.spec.stages import stage_architectures
from paribus.train.memory import BYTES_PER_WEIGHT, VALUES_PER_PARAMETER

TEMPORARY_BYTES = 64 * 2**20  # that a run needs in the temporary folder of its machine, at least
ROW_BYTES = 16 * 2**20  # that rows and answers of a run need in the folder of runs, at least


@dataclass(frozen=True)
class NodeCheck:
    """What a node must have before its first cell; it goes to the node as JSON."""

    root: str  # the folder of runs
    secret: str  # what its token holds
    host: str  # who wrote the token
    environment: Mapping[str, Any]  # what must be the same there; what is not named may differ
    device: str
    text_folders: Sequence[str]
    n_bytes: int  # that its runs need in the folder of runs
    is_locked: bool = True  # whether the driver still holds the lock beside its token
    n_temporary_bytes: int = TEMPORARY_BYTES

    @property
    def table(self) -> dict[str, Any]:
        return asdict(self)


@contextmanager
def node_token(root: Path) -> Iterator[str]:
    """The secret of a new token in a folder of runs, which is locked, and removed in the end."""
    root = root.absolute()
    secret = secrets.token_hex(8)
    path, lock = root / node_token_name(secret), root / node_lock_name(secret)
    write_node_token(root, secret)
    try:
        with hold_lock(lock):
            yield secret
    finally:
        for left in (path, lock):
            with suppress(OSError):  # of a disk that is gone: they say nothing to anybody else
                left.unlink(missing_ok=True)


def write_node_token(root: Path, secret: str) -> None:
    """A token in a folder, which stays there."""
    with explained(root, "written", "give a folder you may write to"):
        root.mkdir(parents=True, exist_ok=True)
    token = {"root": str(root), "secret": secret, "host": socket.gethostname()}
    write_json(root / node_token_name(secret), token)


def cells_check(
    cells: Sequence[Cell],
    root: Path,
    secret: str,
    device: torch.device,
    environment: Mapping[str, Any],
) -> NodeCheck:
    """What a node must have to make any of these cells."""
    folders = {str(text.folder.absolute()) for cell in cells for text in cell.texts}
    return NodeCheck(
        root=str(root.absolute()),
        secret=secret,
        host=socket.gethostname(),
        environment=environment,
        device=device.type,
        text_folders=sorted(folders),
        n_bytes=max((run_disk_bytes(cell.run) for cell in cells), default=0),
    )


def run_disk_bytes(run: RunSpec) -> int:
    """What a run needs on its disk: as many checkpoints as it keeps, one more while it is
    written, and its rows.
    """
    n_bytes = ROW_BYTES
    for stage, architecture in zip(run.stages, stage_architectures(run), strict=True):
        n_values = VALUES_PER_PARAMETER[stage.training.optimizer.kind] - 1  # without the gradient
        n_parameters = stage_parameters(resolve(architecture), stage.objective).total
        n_checkpoints = stage.training.keep_last + 1
        n_bytes += BYTES_PER_WEIGHT * n_values * n_parameters * n_checkpoints
    return n_bytes


def require_fit_node(check: NodeCheck) -> None:
    """RecordError or UnsupportedError where this node is not fit for the runs of a study."""
    _require_shared_folder(check)
    _require_same_environment(check)
    _require_space(Path(check.root), check.n_bytes, "the folder of runs")
    _require_space(Path(tempfile.gettempdir()), check.n_temporary_bytes, "its temporary folder")


def _require_shared_folder(check: NodeCheck) -> None:
    here = socket.gethostname()
    token = Path(check.root) / node_token_name(check.secret)
    remedy = f"mount the same folder at {check.root} on every node, or name one with --runs"
    if not token.is_file():
        raise RecordError(
            f"the node {here} does not see the folder of runs of {check.host}:"
            f" {token} is not there; {remedy}"
        )
    found = read_json(token, remedy)
    if found != {"root": check.root, "secret": check.secret, "host": check.host}:
        raise RecordError(
            f"the node {here} sees another folder of runs than {check.host}: {token} is not what"
            f" was written; {remedy}"
        )
    if check.is_locked and not is_locked(Path(check.root) / node_lock_name(check.secret)):
        raise RecordError(
            f"the node {here} does not see locks that {check.host} holds in {check.root}, and two"
            " machines could train one run at once; mount it with locks that machines share (NFS"
            " without nolock and local_lock, Lustre with flock)"
        )
    if not os.access(check.root, os.W_OK | os.X_OK):
        raise RecordError(f"the node {here} may not write to {check.root}; give it the right to")
    for folder in check.text_folders:
        if not Path(folder).is_dir():
            raise RecordError(
                f"the node {here} does not see the tokenised text {folder} of {check.host}; name"
                " a shared folder with --cache"
            )


def _require_same_environment(check: NodeCheck) -> None:
    device = select_device(check.device)
    now = current_environment(torch.get_num_threads(), device_kind(device), cudnn_version(device))
    compared = {name: now.get(name) for name in check.environment}
    changes = environment_differences(check.environment, compared)
    if not changes:
        return
    here = socket.gethostname()
    parts = []
    for name, (there, value) in changes.items():
        parts.append(f"{name} is {value} there and {there} on {check.host}")
    if "code" in changes:
        raise UnsupportedError(
            f"the node {here} has other code: {'; '.join(parts)}; install the same version of"
            " paribus on every node"
        )
    raise UnsupportedError(
        f"the node {here} would make runs under another environment: {'; '.join(parts)}; use"
        " nodes of one kind, or give --accept-environment, which the report then mentions"
    )


def _require_space(folder: Path, n_bytes: int, what: str) -> None:
    with explained(folder, "read", "make it readable"):
        free = shutil.disk_usage(folder).free
    if free < n_bytes:
        raise UnsupportedError(
            f"the node {socket.gethostname()} has {free / 1e6:,.0f} MB free in {what}, {folder},"
            f" and a run needs {n_bytes / 1e6:,.0f} MB; free some space there"
        )
