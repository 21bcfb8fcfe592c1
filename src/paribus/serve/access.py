"""Who may ask: keys, compared in constant time, and the hosts under which a server is known."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from paribus.canonical import canonical_hash
from paribus.errors import SpecError
from paribus.files import read_text
from paribus.serve.http_errors import RequestError

KEY_VARIABLE = "PARIBUS_KEY"
MAX_KEY_LETTERS, MAX_KEY_FILE_BYTES = 512, 1 << 20
LOOPBACK_NAMES = ("localhost",)
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[\w.-]+)(:\d{1,5})?", re.ASCII | re.IGNORECASE)
CHALLENGE = {"WWW-Authenticate": 'Basic realm="paribus", charset="UTF-8"'}  # browsers read one


def read_keys(
    keys: Sequence[str] = (),
    key_file: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> tuple[str, ...]:
    """All keys that a person gave: as options, in a file with one on each line, or in an
    environment variable.
    """
    every = list(keys)
    if key_file is not None:
        lines = [line.strip() for line in read_text(key_file, MAX_KEY_FILE_BYTES).splitlines()]
        own = [line for line in lines if line]
        if not own:
            raise SpecError(f"--key-file {key_file} holds no key; write one on each line")
        every += own
    if KEY_VARIABLE in environment:
        every.append(environment[KEY_VARIABLE])
    for key in every:
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise SpecError(
                "a key is empty, or has spaces or other letters than printable ASCII; use one such"
                f" as {secrets.token_urlsafe(24)}"
            )
        if len(key) > MAX_KEY_LETTERS:
            raise SpecError(f"a key has {len(key):,} letters; use at most {MAX_KEY_LETTERS}")
    return tuple(every)


@dataclass(frozen=True)
class Access:
    """Who may ask a server. Without keys, everybody who reaches it."""

    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = LOOPBACK_NAMES  # names under which it is known
    takes_addresses: bool = False  # may a request name any IP address as its host?
    secret: str = field(default_factory=lambda: secrets.token_hex(16))  # in every salt

    def salt(self, authorization: str | None) -> bytes:
        """What parts the cache of one key from that of others; RequestError without a key."""
        if not self.keys:
            return b""
        offered = _offered_key(authorization)
        is_known = False
        for key in self.keys:  # all of them, as digests of one length: the time says nothing
            is_known |= hmac.compare_digest(canonical_hash(key), canonical_hash(offered))
        if not is_known:
            raise RequestError(
                401,
                "the key is missing or unknown; send `Authorization: Bearer KEY`, or HTTP Basic"
                " with the key as the password",
                "invalid_api_key",
                headers=CHALLENGE,
            )
        return bytes.fromhex(canonical_hash(["salt", self.secret, offered]))

    def require_host(self, host: str | None, origin: str | None, scheme: str = "http") -> None:
        """RequestError for a request that names another host, or comes from a page of another."""
        if host is None or not self._is_ours(host):
            raise RequestError(
                421,
                f"the host {host!r:.100} is not one of this server; use one of"
                f" {', '.join(self.hosts)}, or start it with --allow-host NAME",
                "foreign_host",
            )
        if origin is not None and origin.lower() != f"{scheme}://{host.lower()}":
            raise RequestError(
                403,
                f"the page at {origin!r:.100} may not use this server; open the server's own page",
                "foreign_origin",
            )

    def _is_ours(self, host: str) -> bool:
        parts = _HOST.fullmatch(host)
        if parts is None:
            return False
        name = parts["name"].lower().strip("[]")
        if name in self.hosts:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.takes_addresses


def access_for(host: str, keys: Iterable[str], allowed_hosts: Iterable[str] = ()) -> Access:
    """The access to a server that binds to a host. An IP address in a request cannot have been
    planted by a name server, so one that is open to a network takes any.
    """
    names = [*LOOPBACK_NAMES]
    takes_addresses = not is_loopback(host)
    names += [one.lower() for one in (host, *allowed_hosts)]
    return Access(tuple(keys), tuple(dict.fromkeys(names)), takes_addresses)


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in LOOPBACK_NAMES


def _offered_key(authorization: str | None) -> str:
    """The key of a header; empty where there is none."""
    scheme, _, rest = (authorization or "").partition(" ")
    rest = rest.strip()
    if scheme.lower() == "bearer":
        return rest
    if scheme.lower() != "basic":
        return ""
    try:
        text = base64.b64decode(rest, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
    return text.partition(":")[2]
