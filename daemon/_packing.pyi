from typing import Any

def pack(publications: list[Any], members: tuple[Any, ...]) -> bytes | None: ...
def unpack(
    frame: bytes | memoryview,
    numbers: int,
    members: tuple[Any, ...],
    others: tuple[Any, ...],
    limits: tuple[int, int, int, int, int, int, float],
) -> tuple[Any, ...] | None: ...
