"""Global ids: the first eight bytes of BLAKE2b of a name.

Names travel once (HELLO, Attach, Advertise), ids everywhere else; two names with one id are refused
where the second one is introduced.
"""

from __future__ import annotations

from grapevine.wire.digest import blake2b


def identify(name: str) -> int:
    """The 64-bit id of a broker's or a client's name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")
