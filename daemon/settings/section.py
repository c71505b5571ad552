"""What a section of the configuration is made of."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Meta


def key(text: str, *, reload: bool = False, cluster: bool = False, **limits: Any) -> Meta:
    """What a key means; `limits` are those of msgspec.Meta."""
    return Meta(description=text, extra={"reload": reload, "cluster": cluster}, **limits)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all sections share."""
