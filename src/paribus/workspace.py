"""Where runs and texts are kept, and what computes: values that go from verb to verb."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv6Address
from pathlib import Path

from paribus.errors import SpecError
from paribus.files import expand_home
from paribus.record import RUNS
from paribus.slurm.options import SbatchOptions, require_sbatch_options

DEFAULT_CACHE = "~/.cache/paribus"


def parse_folder(option: str, value: str | Path) -> Path:
    """A folder that an option names; an empty one would be the current folder, which nobody
    asked for.
    """
    if value == "":
        raise SpecError(f"{option} is empty; name a folder, such as '.', or leave it out")
    return Path(value)


def cache_folder(value: str | Path | None) -> Path:
    """The folder asked for, or the one of this user."""
    if value is None:
        folder = expand_home("--cache", DEFAULT_CACHE)
    else:
        folder = parse_folder("--cache", value)
    if folder.is_file():
        raise SpecError(f"--cache is {folder}, which is a file; name a folder")
    return folder


@dataclass(frozen=True)
class Workspace:
    """The folder of runs, the folder of tokenised text and the device.

    `cache` is by default the folder of this user, `device` the best one of this machine: cpu, cuda
    or mps. With `accept_environment`, a run goes on under other versions or threads, and its rows
    are marked.
    """

    runs: str | Path = RUNS
    cache: str | Path | None = None
    device: str | None = None
    accept_environment: bool = False

    @property
    def runs_folder(self) -> Path:
        return parse_folder("--runs", self.runs)

    @property
    def cache_folder(self) -> Path:
        return cache_folder(self.cache)


@dataclass(frozen=True)
class Local:
    """Runs are carried out on this machine.

    With `use_mps`, several runs on one NVIDIA GPU share it through MPS, where that is installed.
    """

    use_mps: bool = True


def parse_host_and_port(address: str) -> tuple[str, int] | None:
    """The two parts of HOST:PORT, where an IPv6 address stands in brackets, which are left out;
    None where it has another form.
    """
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        return None
    if host.startswith("["):
        return _parse_ipv6_host(host, int(port))
    if not host or any(letter in host for letter in "/:[]"):
        return None
    return host, int(port)


def _parse_ipv6_host(host: str, port: int) -> tuple[str, int] | None:
    inner = host.removeprefix("[").removesuffix("]")
    try:
        IPv6Address(inner)
    except ValueError:
        return None
    return (inner, port) if host == f"[{inner}]" else None


@dataclass(frozen=True)
class Ray:
    """Runs are carried out on a Ray cluster.

    `address` is that of its head node, such as 10.0.0.1:6379 or [fd00::1]:6379. Without one, the
    cluster that this machine belongs to is used, and if there is none, a local one is started.
    """

    address: str | None = None

    def __post_init__(self) -> None:
        if self.address is None:
            return
        if parse_host_and_port(self.address) is None:
            raise SpecError(
                f"--ray-address is {self.address!r}; write HOST:PORT, such as 10.0.0.1:6379 or"
                " [fd00::1]:6379"
            )


@dataclass(frozen=True)
class Slurm:
    """Runs are carried out as jobs of SLURM.

    `options` go to sbatch as they are: a value, or True of a flag, by the option's long name, such
    as {"partition": "gpu", "time": "240", "exclusive": True}.
    """

    options: SbatchOptions = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_sbatch_options(self.options)


Place = Local | Ray | Slurm


@dataclass(frozen=True)
class Execution:
    """How the runs of a study are carried out: where, how many at a time, and which of them.

    On a Ray cluster, `n_jobs` is the number of runs at a time on each node, or on each GPU.
    """

    workspace: Workspace = Workspace()
    n_jobs: int = 1
    shard: tuple[int, int] = (1, 1)  # which of how many
    on: Place = Local()

    def __post_init__(self) -> None:
        number, total = self.shard
        if not 1 <= number <= total:
            raise SpecError(
                f"--shard is '{number}/{total}'; write I/N with I from 1 to N, such as 2/8"
            )
        if self.n_jobs < 1:
            raise SpecError(f"--jobs is {self.n_jobs}; use 1 or more")
