"""Where runs and texts are kept, and how the runs of a study are carried out."""

import re
from pathlib import Path

import pytest

import paribus as pb
from paribus.errors import SpecError
from paribus.workspace import parse_host_and_port


def test_a_workspace_has_the_usual_folders_unless_others_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert pb.Workspace().runs_folder == Path("runs")
    assert pb.Workspace().cache_folder == tmp_path / ".cache/paribus"
    named = pb.Workspace("elsewhere", cache="texts")
    assert (named.runs_folder, named.cache_folder) == (Path("elsewhere"), Path("texts"))


def test_a_folder_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"--runs is empty; name a folder, such as '.', or leave"):
        assert pb.Workspace("").runs_folder
    with pytest.raises(SpecError, match="--cache is empty; name a folder"):
        assert pb.Workspace(cache="").cache_folder
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SpecError, match=r"--cache is .*/file, which is a file; name a folder"):
        assert pb.Workspace(cache=file).cache_folder


@pytest.mark.parametrize("shard", [(0, 2), (3, 2), (-1, 1)])
def test_a_shard_that_is_not_one_of_them_is_refused(shard: tuple[int, int]) -> None:
    text = f"--shard is '{shard[0]}/{shard[1]}'; write I/N with I from 1 to N, such as 2/8"
    with pytest.raises(SpecError, match=text):
        pb.Execution(shard=shard)


@pytest.mark.parametrize(
    "address",
    [
        *("", "host", "host:", ":6379", "ray://host:10001", "a:b", "a:0", "a:65536"),
        *("::1:6379", "[::1]", "[]:6379", "[::1:6379", "::1]:6379", "[host]:6379", "a:²"),
    ],
)
def test_an_address_that_is_no_host_and_port_is_refused(address: str) -> None:
    text = f"--ray-address is '{address}'; write HOST:PORT, such as 10.0.0.1:6379 or [fd00::1]:6379"
    with pytest.raises(SpecError, match=re.escape(text)):
        pb.Ray(address)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.1:6379", "10.0.0.1"),
        ("head.example:6379", "head.example"),
        ("[::1]:6379", "::1"),
        ("[fe80::1%eth0]:6379", "fe80::1%eth0"),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, host: str) -> None:
    assert pb.Ray(address).address == address
    assert parse_host_and_port(address) == (host, 6379)


def test_no_run_at_a_time_is_refused() -> None:
    with pytest.raises(SpecError, match="--jobs is 0; use 1 or more"):
        pb.Execution(n_jobs=0)
