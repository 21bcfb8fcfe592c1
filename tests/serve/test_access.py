"""Where keys come from, and which hosts are the server's."""

from __future__ import annotations

from pathlib import Path

import pytest

from paribus.errors import SpecError
from paribus.serve.access import access_for, is_loopback, read_keys
from paribus.serve.http_errors import RequestError


def test_keys_come_from_options_a_file_and_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("one\n\n two \n")
    assert read_keys(("zero",), path, {"PARIBUS_KEY": "three"}) == ("zero", "one", "two", "three")
    assert read_keys((), None, {}) == ()


@pytest.mark.parametrize("key", ["", "a b", "é", "tab\t", "x" * 600])
def test_a_key_that_no_header_can_hold_is_refused(key: str) -> None:
    with pytest.raises(SpecError, match="a key "):
        read_keys((key,), None, {})


def test_a_file_without_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("\n\n")
    with pytest.raises(SpecError, match="holds no key; write one on each line"):
        read_keys((), path, {})


@pytest.mark.parametrize(
    ("bound", "host", "is_ours"),
    [
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("127.0.0.1", "LOCALHOST:1", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "10.0.0.1", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "[", False),
        ("127.0.0.1", "localhost@evil.example", False),
        ("127.0.0.1", "evil.example@127.0.0.1:8000", False),
        ("127.0.0.1", "127.0.0.1/evil.example", False),
        ("127.0.0.1", "127.0.0.1#:8000", False),
        ("127.0.0.1", "127.0.0.1:8000:8000", False),
        ("0.0.0.0", "10.0.0.1:8000", True),
        ("0.0.0.0", "evil.example", False),
        ("0.0.0.0", "lab.example:80", True),
        ("lab.example", "lab.example", True),
    ],
)
def test_only_own_names_are_taken(bound: str, host: str, is_ours: bool) -> None:
    access = access_for(bound, (), ("Lab.example",) if bound == "0.0.0.0" else ())
    if is_ours:
        access.require_host(host, None)
        return
    with pytest.raises(RequestError, match="is not one of this server"):
        access.require_host(host, None)


@pytest.mark.parametrize(
    ("origin", "scheme", "is_ours"),
    [
        (None, "http", True),
        ("http://localhost:8000", "http", True),
        ("HTTP://LOCALHOST:8000", "http", True),
        ("https://localhost:8000", "https", True),
        ("https://localhost:8000", "http", False),
        ("http://localhost:8000", "https", False),
        ("http://localhost", "http", False),
        ("http://a@localhost:8000", "http", False),
        ("null", "http", False),
        ("", "http", False),
    ],
)
def test_only_own_pages_are_taken(origin: str | None, scheme: str, is_ours: bool) -> None:
    access = access_for("127.0.0.1", ())
    if is_ours:
        access.require_host("localhost:8000", origin, scheme)
        return
    with pytest.raises(RequestError, match="may not use this server"):
        access.require_host("localhost:8000", origin, scheme)


def test_salts_differ_by_key_and_by_server() -> None:
    access = access_for("127.0.0.1", ("a", "b"))
    first, second = access.salt("Bearer a"), access.salt("Bearer b")
    assert first != second
    assert access.salt("Bearer a") == first
    assert access_for("127.0.0.1", ("a", "b")).salt("Bearer a") != first
    assert access_for("127.0.0.1", ()).salt(None) == b""


def test_loopback_is_known() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.org")
