"""A channel's parameters: their types, how a value is taken, the canonical form of a set, its id.

Two subscribers share one back-end subscription if their sets are equal in canonical form (BAD 3.1): a msgpack
array of the values in declared order, each converted to its declared type or refused. A double is finite and
never -0.0; `snap` rounds a number to a multiple within its limits, so that nearly equal sets become equal; a
timestamp is in microseconds since 1970 UTC, of the years 1 to 9999. Taking a value that was taken changes
nothing: whoever reads a canonical form takes it again. The id is 64 bits of BLAKE2b over channel, version and
canonical form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from grapevine.errors import ParameterError
from grapevine.wire.digest import blake2b

ParameterValue: TypeAlias = str | float | int | bool
TYPES = ("string", "double", "bigint", "boolean", "timestamp")
NUMBERS = ("double", "bigint")
BIGINT = 2**63
EXACT = 2**40  # multiples of a step are told apart from their rounding errors up to here
TIMES = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # years 1 to 9999, as Python and Spark have them
STRING_MAX = 4096  # characters: a set is part of a table that goes to every executor
PARAMETERS_MAX = 32

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(?:Z|([+-])(\d\d):?(\d\d))?)?"
)
_encode = msgspec.msgpack.Encoder().encode


class Parameter(msgspec.Struct, frozen=True, array_like=True):
    """`default`, `minimum` and `maximum` are None where not given; so a parameter without default is
    required."""

    name: str
    type: str
    snap: float | None = None
    default: ParameterValue | None = None
    minimum: ParameterValue | None = None
    maximum: ParameterValue | None = None


def mistakes(parameter: Parameter) -> list[str]:
    """What is wrong with a declaration."""
    if parameter.type not in TYPES:
        return [f"type {parameter.type!r} is not one of {', '.join(TYPES)}"]
    found = []
    snap = parameter.snap
    if snap is not None and parameter.type not in NUMBERS:
        found.append(f"snap is for numbers, not for a {parameter.type}")
    elif snap is not None and not (math.isfinite(snap) and snap > 0):
        found.append("snap is not above 0")
    elif snap is not None and parameter.type == "bigint" and snap != int(snap):
        found.append("snap of a bigint is not a whole number")
    if found:
        return found
    low, high = parameter.minimum, parameter.maximum
    for word, value in (("default", parameter.default), ("min", low), ("max", high)):
        try:
            if value is not None:
                take(parameter if word == "default" else Parameter(parameter.name, parameter.type), value)
        except ParameterError as error:
            found.append(f"{word} is {error.given}, not {error.expected}")
    if not found and low is not None and high is not None:
        if _limit(parameter, low) > _limit(parameter, high):  # type: ignore[operator]
            found.append("min is above max")
    return found


def take(parameter: Parameter, given: object) -> ParameterValue:
    """The value in its declared type, snapped; ParameterError if it is none."""
    value = _converted(parameter, given)
    low, high = _limit(parameter, parameter.minimum), _limit(parameter, parameter.maximum)
    if low is not None and value < low:  # type: ignore[operator]
        raise ParameterError(parameter.name, f"at least {parameter.minimum}", given)
    if high is not None and value > high:  # type: ignore[operator]
        raise ParameterError(parameter.name, f"at most {parameter.maximum}", given)
    if parameter.snap is None:
        return value
    assert isinstance(value, int | float)
    snapped = _snapped(value, parameter.snap)
    if low is not None and snapped < low:  # type: ignore[operator]
        return low
    return high if high is not None and snapped > high else snapped  # type: ignore[operator]


def _limit(parameter: Parameter, limit: ParameterValue | None) -> ParameterValue | None:
    """In the parameter's own type: a channel file has times as text."""
    return None if limit is None else _converted(parameter, limit)


def _snapped(value: float, snap: float) -> float:
    if isinstance(value, int):
        step = int(snap)
        return min(max((value + step // 2) // step * step, -BIGINT), BIGINT - 1)
    steps = value / snap
    if abs(steps) >= EXACT:
        return value  # the step is next to nothing there
    # Twelve digits behind the point of the step: 6017 * 0.01 is 60.17 and not 60.170000000000002.
    found = round(math.floor(steps + 0.5) * snap, _digits(snap)) + 0.0
    return found if math.isfinite(found) else value


def _digits(snap: float) -> int:
    return 12 - math.floor(math.log10(snap))


def _converted(parameter: Parameter, given: object) -> ParameterValue:
    kind = parameter.type
    if kind == "string":
        if isinstance(given, str) and len(given) <= STRING_MAX:
            return given
        raise ParameterError(parameter.name, f"text of at most {STRING_MAX} characters", given)
    if kind == "boolean":
        if isinstance(given, bool):
            return given
        raise ParameterError(parameter.name, "true or false", given)
    if kind == "timestamp":
        return _timestamp(parameter, given)
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise ParameterError(parameter.name, f"a number ({kind})", given)
    if kind == "double":
        return float(given) + 0.0  # -0.0 + 0.0 is 0.0
    if given != int(given) or not -BIGINT <= given < BIGINT:
        raise ParameterError(parameter.name, "a whole number of 64 bits (bigint)", given)
    return int(given)


def _timestamp(parameter: Parameter, given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and TIMES[0] <= given <= TIMES[1]:
        return given
    text = given if isinstance(given, str) else getattr(given, "isoformat", lambda: "")()
    match = _TIME.fullmatch(text)
    if match is None:
        raise ParameterError(parameter.name, "a time, such as 2026-11-17T18:00:00Z", given)
    year, month, day = (int(part) for part in match.group(1, 2, 3))
    hour, minute, second = (int(part or 0) for part in match.group(4, 5, 6))
    if not (
        1 <= month <= 12 and 1 <= day <= _days(year, month) and hour < 24 and minute < 60 and second < 60
    ):
        raise ParameterError(parameter.name, "a time, such as 2026-11-17T18:00:00Z", given)
    seconds = _day_number(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    if match[8]:
        away = int(match[9]) * 3600 + int(match[10]) * 60
        seconds -= away if match[8] == "+" else -away
    found = seconds * 1_000_000 + int((match[7] or "").ljust(6, "0"))
    if not TIMES[0] <= found <= TIMES[1]:
        raise ParameterError(parameter.name, "a time of the years 1 to 9999", given)
    return found


def _days(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def _day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 (Gregorian); years begin in March, so that a leap day is the last."""
    y = year - (month <= 2)
    since_march = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * y + y // 4 - y // 100 + y // 400 + since_march - 719_468


def take_set(declared: Sequence[Parameter], given: Mapping[str, object]) -> tuple[ParameterValue, ...]:
    """All values in declared order, defaults where none is given."""
    names = [parameter.name for parameter in declared]
    for name in given:
        if name not in names:
            raise ParameterError(
                name, f"one of {', '.join(names)}" if names else "no parameters", given[name]
            )
    values = []
    for parameter in declared:
        value = given.get(parameter.name, parameter.default)
        if value is None:
            raise ParameterError(parameter.name, f"a value ({parameter.type})", None)
        values.append(take(parameter, value))
    return tuple(values)


def canonical(values: Sequence[ParameterValue]) -> bytes:
    return _encode(list(values))


def read_canonical(declared: Sequence[Parameter], form: bytes) -> tuple[ParameterValue, ...]:
    """The values of a set that a peer sent; ParameterError unless it is what `canonical` would have made."""
    try:
        raw: Any = msgspec.msgpack.decode(form, type=list[str | bool | int | float])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ParameterError("set", "a canonical set", form.hex()) from None
    if len(raw) != len(declared):
        raise ParameterError("set", f"{len(declared)} values", len(raw))
    values = tuple(take(parameter, value) for parameter, value in zip(declared, raw))
    if canonical(values) != form:
        raise ParameterError("set", "a canonical set", form.hex())
    return values


def set_id(channel: str, version: int, form: bytes) -> int:
    """The id of a back-end subscription."""
    digest = blake2b(_encode([channel, version, form]), digest_size=8).digest()
    return int.from_bytes(digest, "big")
