import platform
from importlib.metadata import version
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record import current_environment, environment_differences, require_same_environment
from paribus.record.environment import NUMERIC_SOURCES, code_hash, cpu_capability, processor_name

XEON = """processor\t: 0
model name\t: Intel(R) Xeon(R) Platinum 8480C
flags\t\t: fpu sse sse2 fma avx avx2 avx512f avx512_bf16 amx_tile

processor\t: 1
model name\t: another
flags\t\t: avx9
"""
NEOVERSE = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd aes fphp asimdhp
CPU implementer\t: 0x41
CPU part\t: 0xd0c
"""


def test_an_environment_says_what_decides_the_numbers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    now = current_environment(n_threads=5, device="cuda")
    assert now["python"] == platform.python_version()
    assert now["torch"] == version("torch")
    assert now["numpy"] == version("numpy")
    assert now["machine"] == platform.machine()
    assert (now["n_threads"], now["device"]) == (5, "cuda")
    assert (now["omp_num_threads"], now["aten_cpu_capability"]) == ("3", None)
    assert len(now["code"]) == 64
    assert now == current_environment(n_threads=5, device="cuda")


def test_a_library_that_is_not_there_has_no_version(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.path", [])
    assert current_environment(1, "cpu")["torch"] is None


def test_the_processor_is_that_of_the_first_core():
    assert processor_name(XEON) == "Intel(R) Xeon(R) Platinum 8480C"
    assert cpu_capability(XEON) == "amx_tile avx avx2 avx512_bf16 avx512f fma"
    assert processor_name(NEOVERSE) == "0x41 0xd0c"
    assert cpu_capability(NEOVERSE) == "asimd asimdhp fphp"
    assert (processor_name(""), cpu_capability("")) == ("", "")


def _package(root: Path) -> Path:
    for name, text in {
        "model/a.py": "a\nb\n",
        "model/inner/b.py": "",
        "batch.py": "x = 1\n",
        "cli/c.py": "c",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root


def test_code_is_the_same_under_other_line_ends_and_other_packages(tmp_path: Path):
    package = _package(tmp_path)
    before = code_hash(package)
    (package / "model" / "a.py").write_bytes(b"a\r\nb\r")
    (package / "cli" / "c.py").write_text("another")
    (package / "model" / "notes.txt").write_text("not code")
    (package / "report").mkdir()
    (package / "report" / "d.py").write_text("d")
    assert code_hash(package) == before


@pytest.mark.parametrize("name", NUMERIC_SOURCES)
def test_code_is_not_the_same_once_a_file_that_touches_numbers_is_added(tmp_path: Path, name: str):
    package = _package(tmp_path)
    before = code_hash(package)
    path = package / name if name.endswith(".py") else package / name / "deep" / "new.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("new")
    assert code_hash(package) != before


def test_code_is_the_same_once_it_moves_to_another_file(tmp_path: Path):
    package = _package(tmp_path)
    before = code_hash(package)
    (package / "model" / "a.py").rename(package / "model" / "c.py")
    assert code_hash(package) == before


def test_differences_name_what_was_and_is():
    assert environment_differences({"a": 1, "b": "x"}, {"b": "x", "a": 1}) == {}
    assert environment_differences({"a": 1, "b": "x"}, {"a": 2, "c": None, "d": 3}) == {
        "a": (1, 2),
        "b": ("x", None),
        "d": (None, 3),
    }


def test_another_environment_is_refused_unless_accepted():
    then, now, where = (
        {"torch": "2.11", "n_threads": 2, "code": "c"},
        {"torch": "2.12", "n_threads": 4, "code": "c"},
        Path("r"),
    )
    assert require_same_environment(then, then, False, where) == {}
    said = (
        r"^r was made under another environment: torch was 2.11, is 2.12; n_threads was 2, is 4; "
        r"resume under the former one, or give --accept-environment, which marks the rows$"
    )
    with pytest.raises(RecordError, match=said):
        require_same_environment(then, now, False, where)
    assert require_same_environment(then, now, True, where) == {
        "torch": ("2.11", "2.12"),
        "n_threads": (2, 4),
    }
