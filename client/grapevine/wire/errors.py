"""The one error that bytes from outside can cause."""

from __future__ import annotations


class WireError(Exception):
    """A peer's bytes are not a message of this protocol, or break one of its limits."""
