from typing import Any

import pytest

from paribus.errors import SpecError
from paribus.slurm.options import (
    OWN_OPTIONS,
    parse_sbatch_options,
    require_plain_path,
    require_sbatch_options,
    time_limit_seconds,
)
from paribus.workspace import Slurm


def test_values_flags_and_underscores_are_read() -> None:
    options = parse_sbatch_options(["partition=gpu", "exclusive", "cpus_per_task=4", "comment=a=b"])
    assert options == {
        "partition": "gpu",
        "exclusive": True,
        "cpus-per-task": "4",
        "comment": "a=b",
    }


@pytest.mark.parametrize("name", sorted(OWN_OPTIONS))
def test_what_paribus_sets_itself_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(SpecError, match=f"--slurm {name}: .*; leave it out"):
        parse_sbatch_options([f"{name}=1"])
    with pytest.raises(SpecError, match=f"--slurm {name}: "):
        parse_sbatch_options([name])


@pytest.mark.parametrize(
    "value",
    [
        "gpu\nrm -rf /",
        "gpu\r#SBATCH --uid=0",
        "gpu\x00",
        "gpu\x85next",
        "gpu\u2028next",
        "gpu' --uid=0 '",
        'gpu"',
        "gpu\\",
        "`date`",
        "",
    ],
)
def test_a_value_that_could_add_a_line_or_an_option_to_the_script_is_refused(value: str) -> None:
    with pytest.raises(SpecError, match="give one line without quotes or backslashes"):
        parse_sbatch_options([f"partition={value}"])
    with pytest.raises(SpecError, match="give one line without quotes or backslashes"):
        Slurm({"partition": value})


@pytest.mark.parametrize(
    "name", ["", "par tition", "-x", "partition\n--uid", "Partition", "a;b", "---uid", "p'"]
)
def test_a_name_that_is_no_long_option_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="write a long option of sbatch"):
        require_sbatch_options({name: "1"})


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(SpecError, match="--slurm mem-per-cpu is given twice"):
        parse_sbatch_options(["mem_per_cpu=1G", "mem-per-cpu=2G"])


@pytest.mark.parametrize("name", ["arra", "job", "cluster", "out"])
def test_the_beginning_of_an_own_option_is_refused_as_sbatch_takes_it_for_the_whole(
    name: str,
) -> None:
    with pytest.raises(SpecError, match=f"--slurm {name}: .*; leave it out"):
        parse_sbatch_options([f"{name}=x"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exclude=/etc/nodes", "exclude is '/etc/nodes'; write the names of nodes"),
        ("exclude", "exclude is True; write the names of nodes"),
        ("exclud=b7", "exclud: write the whole name, exclude"),
    ],
)
def test_nodes_to_be_left_out_are_given_by_name(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        parse_sbatch_options([text])
    assert parse_sbatch_options(["exclude=b7,c[1-3]"]) == {"exclude": "b7,c[1-3]"}


@pytest.mark.parametrize("value", ["TERM@60", "B:USR2@60", "USR2@", "KILL", "USR3"])
def test_a_signal_that_no_run_heeds_is_refused(value: str) -> None:
    with pytest.raises(SpecError, match="use USR1@SECONDS or USR2@SECONDS"):
        parse_sbatch_options([f"signal={value}"])


@pytest.mark.parametrize("value", ["USR1@60", "USR2@600", "SIGUSR2@1", "USR1"])
def test_signals_that_a_run_heeds_are_passed_on(value: str) -> None:
    assert parse_sbatch_options([f"signal={value}"]) == {"signal": value}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("90", 90 * 60),
        ("3:20", 200),
        ("2:00:05", 7205),
        ("1-6", 30 * 3600),
        ("1-6:30", 30 * 3600 + 1800),
        ("2-00:00:07", 2 * 86400 + 7),
    ],
)
def test_times_are_read_as_sbatch_reads_them(value: str, seconds: int) -> None:
    assert time_limit_seconds(value) == seconds


@pytest.mark.parametrize("value", [True, "soon", "1:2:3:4", "-5", "1h"])
def test_a_time_that_sbatch_does_not_know_is_refused(value: Any) -> None:
    with pytest.raises(SpecError, match="write minutes, hours:minutes:seconds"):
        require_sbatch_options({"time": value})


@pytest.mark.parametrize("path", ["/data/100%/runs", "/it's/runs", "/a\\b", "/a\nb"])
def test_a_folder_that_slurm_would_read_otherwise_is_refused(path: str) -> None:
    with pytest.raises(SpecError, match="name another with --runs"):
        require_plain_path(path)
    require_plain_path("/data/my runs/ü")
