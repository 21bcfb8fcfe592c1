"""A SLURM on this machine, in a folder of its own: munged, slurmctld, and a slurmd for each node.

It needs root and Debian's slurmctld, slurmd, slurm-client and munge; no systemd, no cgroups and no
accounting. Jobs of the partition `urgent` preempt those of `usual`, which SLURM then requeues.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
PATIENCE = 60  # seconds for a daemon to answer
CONFIGURATION = """\
ClusterName=paribus
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=20
MinJobAge=300
SlurmdParameters=config_overrides
{nodes}
PartitionName=usual Nodes=ALL Default=YES PriorityTier=1 MaxTime=60 State=UP
PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=60 State=UP
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={n_cpus}"
    " State=UNKNOWN Weight={weight}"
)


@dataclass(frozen=True)
class SlurmCluster:
    """A running cluster; its commands find it by SLURM_CONF."""

    folder: Path
    n_cpus: int

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def ask(self, *arguments: str) -> str:
        """What a command of SLURM prints."""
        done = subprocess.run(
            arguments,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        return done.stdout.strip()

    def job_states(self) -> dict[str, str]:
        """The state of each job or task of an array that is in the queue, by its number."""
        lines = self.ask("squeue", "--noheader", "--array", "--format=%i %T").splitlines()
        return dict(line.split() for line in lines)

    def submit_urgent(self, seconds: float, n_cpus: int) -> str:
        """The number of a job that preempts others and sleeps."""
        return self.ask(
            "sbatch",
            "--parsable",
            "--partition=urgent",
            f"--cpus-per-task={n_cpus}",
            "--output=/dev/null",
            f"--wrap=sleep {seconds}",
        )

    @contextmanager
    def signal_job(self, job: str, signal_name: str) -> Iterator[None]:
        """A signal to the tasks of a job. scancel does not end before a job that requeues itself
        runs again, and is not waited for.
        """
        command = ["scancel", f"--signal={signal_name}", job]
        with subprocess.Popen(command, env=self.environment) as process:
            try:
                yield
            finally:
                process.kill()


def missing_for_slurm() -> str | None:
    """Why no cluster can be started here; None where one can."""
    if os.geteuid() != 0:
        return "a SLURM of our own needs root: slurmd starts the jobs of any user"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} missing; `make test-cluster` installs Debian's packages"
    return None


@contextmanager
def running_slurm(
    n_cpus: int = 2, nodes: Mapping[str, Sequence[str]] | None = None
) -> Iterator[SlurmCluster]:
    """A cluster of nodes with so many CPUs each, idle, and gone afterwards with every job of it.

    `nodes` has what is put before the command of each node, by name; SLURM takes the first of them
    first. Without it there is one node.
    """
    prefixes = nodes or {"a": ()}
    with TemporaryDirectory(prefix="paribus-slurm-") as name, ExitStack() as daemons:
        folder = Path(name)
        folder.chmod(0o755)
        for part in ("state", *[f"spool-{name}" for name in prefixes]):
            (folder / part).mkdir()
        cluster = SlurmCluster(folder, n_cpus)
        _write_configuration(cluster, list(prefixes))
        munge = f"{folder}/munge"
        start = [
            "munged",
            "--foreground",
            f"--socket={munge}.socket",
            f"--key-file={munge}.key",
            f"--pid-file={munge}.pid",
            f"--seed-file={munge}.seed",
            f"--log-file={munge}.log",
            "--num-threads=2",
        ]
        daemons.enter_context(_running_daemon(start, cluster))
        _wait_until(lambda: (folder / "munge.socket").exists(), "munged", folder)
        daemons.enter_context(_running_daemon(["slurmctld", "-D", "-i"], cluster))
        for name, prefix in prefixes.items():
            daemons.enter_context(_running_daemon([*prefix, "slurmd", "-D", "-N", name], cluster))
        _wait_until(lambda: _is_idle(cluster), "idle nodes", folder)
        daemons.callback(_cancel_all, cluster)
        yield cluster


def _write_configuration(cluster: SlurmCluster, names: Sequence[str]) -> None:
    folder = cluster.folder
    (folder / "munge.key").touch(0o600)
    (folder / "munge.key").write_bytes(secrets.token_bytes(64))
    controller_port, *ports = _free_ports(1 + len(names))
    host = socket.gethostname().partition(".")[0]
    lines = []
    for weight, (name, port) in enumerate(zip(names, ports, strict=True), start=1):
        lines.append(
            NODE.format(name=name, host=host, port=port, n_cpus=cluster.n_cpus, weight=weight)
        )
    text = CONFIGURATION.format(
        host=host, folder=folder, controller_port=controller_port, nodes="\n".join(lines)
    )
    (folder / "slurm.conf").write_text(text)


def _free_ports(n: int) -> list[int]:
    with ExitStack() as sockets:
        ports = []
        for _ in range(n):
            one = sockets.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            ports.append(one.getsockname()[1])
        return ports


@contextmanager
def _running_daemon(arguments: Sequence[str], cluster: SlurmCluster) -> Iterator[None]:
    """A daemon in the foreground, ended by its own process number."""
    log = cluster.folder / f"{arguments[0]}-{arguments[-1]}.out"
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(arguments),
            env=cluster.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_idle(cluster: SlurmCluster) -> bool:
    try:
        states = cluster.ask("sinfo", "--noheader", "--format=%T").split()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
    return bool(states) and set(states) == {"idle"}


def _cancel_all(cluster: SlurmCluster) -> None:
    """No process of a job outlives the cluster."""
    cluster.ask("scancel", "--user=root")
    _wait_until(lambda: not cluster.job_states(), "an empty queue", cluster.folder)


def _wait_until(holds: Callable[[], bool], what: str, folder: Path) -> None:
    for _ in range(PATIENCE * 5):
        if holds():
            return
        time.sleep(0.2)
    logs = []
    for path in sorted([*folder.glob("*.log"), *folder.glob("*.out")]):
        logs.append(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}")
    raise AssertionError(f"no {what} within {PATIENCE} s\n" + "\n".join(logs))
