"""What files hold, to tell whether two of them hold the same, wherever they lie and however they
are packed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from paribus.corpus.archives import ArchiveMember, explain_read_errors

CHUNK_BYTES = 2**20


def content_digests(members: Iterable[ArchiveMember]) -> dict[str, str]:
    """By the sha256 of what a file holds, unpacked: where it lies. Empty files are left out."""
    digests: dict[str, str] = {}
    for member in members:
        total, n_bytes = hashlib.sha256(), 0
        with explain_read_errors(member.where):
            while chunk := member.stream.read(CHUNK_BYTES):
                total.update(chunk)
                n_bytes += len(chunk)
        if n_bytes:
            digests.setdefault(total.hexdigest(), member.where)
    return digests
