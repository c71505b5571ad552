"""BLAKE2b as it is built into Python. `hashlib` brings OpenSSL along: three megabytes of every broker."""

from __future__ import annotations

try:
    from _blake2 import blake2b as blake2b
except ImportError:  # another Python
    from hashlib import blake2b as blake2b
