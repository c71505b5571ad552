"""What `.option(...)` takes, read once and checked when a query is planned.

Names are Kafka's where Kafka has one, and case does not matter. Every mistake is one OptionError that says
what there is; a name that does not exist is answered with the nearest that does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated

import msgspec

from grapevine.client.link import check_address
from grapevine.client.options import Keys
from grapevine.errors import Error
from grapevine.filters import EVERYTHING, Filter, FilterError, parse
from grapevine.wire.limits import BATCH_NUMBER, NAME_BYTES

STAGE, NUMBER = "stage", "number"
FAIL, OMIT = "fail", "omit"
WRITER = {
    "brokers": "addresses of the broker to feed, tcp://host:port, separated by commas: tried in order",
    "attributes": "columns that become attributes: `symbol, price=close`; left out: all but the payload",
    "payload": "the column, binary or string, that becomes the payload; left out: `payload` if there is one",
    "nullAttributes": "fail (default), or omit: a row with a null goes without that attribute",
    "advertise": "a filter that every row matches; left out: everything",
    "publisher": "the name that subscribers see; left out: spark-QUERY",
    "once": "stage (default): rows wait at the broker for the driver's commit; number: they are published at "
    "once under numbers that a second run repeats, which it must do exactly",
    "query": "the name under which a batch write is recognised when it is run again; streams have their own",
    "batch": "the number of that write within the query, rising; 0 when left out",
    "keys": "directory of keys; none for a wire without encryption; left out: the user's own",
    "timeout": "seconds to wait for a broker that does not answer; 30",
}
READER = {
    "brokers": "addresses of brokers, tried in order",
    "filter": "what to subscribe to",
    "stream": "a stream that a broker keeps, to be read by offsets; `streams`: several, separated by commas",
    "streams": "see stream",
    "durable": "the name of a durable subscription: read by offsets, what is committed is acknowledged; with "
    "filter instead of stream it is made if there is none",
    "startingOffsets": 'latest (default of a stream), earliest (of a batch), or {"quotes": 17}; -2 is the '
    "earliest, -1 the latest",
    "startingTimestamp": "milliseconds since 1970: what was accepted then or later",
    "endingOffsets": 'of a batch: latest (default), or {"quotes": 99}, the first that is not wanted',
    "partitionRows": "rows that one task fetches from a stream at most; 100000",
    "maxRowsPerTrigger": "rows of one batch at most",
    "failOnDataLoss": "true (default): fail when rows that a batch was planned with are gone; false: go on",
    "name": "the subscriber's name; left out: one is drawn",
    "keys": "as for writing",
    "timeout": "as for writing",
}
SPARKS_OWN = frozenset(("checkpointlocation", "path", "queryname"))
TIMEOUT_S = 30.0
PARTITION_ROWS = 100_000
EARLIEST, LATEST = -2, -1  # as Kafka's source has them
WORDS = {"earliest": EARLIEST, "latest": LATEST}


class OptionError(Error, ValueError):
    """An option that does not exist, is missing, or has a value that cannot be."""


@dataclass(frozen=True)
class WriteOptions:
    brokers: tuple[str, ...]
    attributes: str
    payload: str
    null_attributes: str
    advertisement: Filter
    publisher: str
    once: str
    query: str
    batch: int
    keys: str | None
    timeout_s: float


@dataclass(frozen=True)
class ReadOptions:
    brokers: tuple[str, ...]
    filter: str
    rows_max: int | None
    fail_on_data_loss: bool
    name: str
    keys: str | None
    timeout_s: float


@dataclass(frozen=True)
class ReplayOptions:
    """For streams that a broker keeps."""

    brokers: tuple[str, ...]
    streams: tuple[str, ...]  # none: the one of the filter
    filter: str
    durable: str
    starting: dict[str, int] | int | None  # None: not said
    starting_s: float | None
    ending: dict[str, int] | None
    partition_rows: int
    rows_max: int | None
    fail_on_data_loss: bool
    keys: str | None
    timeout_s: float


def read_options(given: Mapping[str, str]) -> ReadOptions | ReplayOptions:
    said = Said(given, READER)
    if said.text("stream") or said.text("streams") or said.text("durable"):
        return _replay_options(said)
    for name in ("startingTimestamp", "endingOffsets", "partitionRows"):
        if said.text(name):
            raise OptionError(
                f"option {name} is about offsets that a broker keeps: name a stream or a durable"
            )
    starting = said.word("startingOffsets", ("latest",), "latest")
    assert starting
    return ReadOptions(
        said.brokers(),
        said.filter_text("filter"),
        said.whole("maxRowsPerTrigger", 2**31 - 1) or None,
        said.word("failOnDataLoss", ("true", "false"), "true") == "true",
        said.name("name"),
        said.text("keys") or None,
        said.number("timeout", TIMEOUT_S),
    )


def _replay_options(said: Said) -> ReplayOptions:
    names = ",".join((said.text("stream"), said.text("streams"))).split(",")
    streams = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if streams and said.text("filter"):
        raise OptionError("option filter: a stream has its own; leave filter out, or name a durable only")
    if said.text("startingOffsets") and said.text("startingTimestamp"):
        raise OptionError("options startingOffsets and startingTimestamp: one of them says where to start")
    starting_ms = said.number("startingTimestamp", 0.0, 2**53) if said.text("startingTimestamp") else None
    ending = said.offsets("endingOffsets")
    if isinstance(ending, int) and ending != LATEST:
        raise OptionError("option endingOffsets is latest, or offsets by stream")
    return ReplayOptions(
        said.brokers(),
        streams,
        said.filter_text("filter", needed=not streams),
        said.name("durable"),
        said.offsets("startingOffsets"),
        None if starting_ms is None else starting_ms / 1000,
        ending if isinstance(ending, dict) else None,
        said.whole("partitionRows", 2**31 - 1) or PARTITION_ROWS,
        said.whole("maxRowsPerTrigger", 2**31 - 1) or None,
        said.word("failOnDataLoss", ("true", "false"), "true") == "true",
        said.text("keys") or None,
        said.number("timeout", TIMEOUT_S),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    said = Said(given, WRITER)
    if said.text("batch") and not said.text("query"):
        raise OptionError("option batch counts within a query: give the option query too")
    return WriteOptions(
        said.brokers(),
        said.text("attributes"),
        said.text("payload"),
        said.word("nullAttributes", (FAIL, OMIT), FAIL),
        parse(text) if (text := said.filter_text("advertise", needed=False)) else EVERYTHING,
        said.name("publisher"),
        said.word("once", (STAGE, NUMBER), STAGE),
        said.name("query"),
        said.whole("batch", BATCH_NUMBER),
        said.text("keys") or None,
        said.number("timeout", TIMEOUT_S),
    )


def client_keys(keys: str | None) -> Keys:
    """The option `keys` as `grapevine.connect` takes it."""
    return False if keys == "none" else keys


class Said:
    """The options given, by their names in small letters."""

    def __init__(self, given: Mapping[str, str], known: Mapping[str, str]) -> None:
        self._values = {key.lower(): value for key, value in given.items()}
        names = {name.lower(): name for name in known}
        for key in self._values:
            if key not in names and key not in SPARKS_OWN:
                near = get_close_matches(key, names, 1)
                hint = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(known)}"
                raise OptionError(f"unknown option {key!r}: {hint}")

    def text(self, name: str) -> str:
        return self._values.get(name.lower(), "").strip()

    def brokers(self) -> tuple[str, ...]:
        addresses = tuple(part.strip() for part in self.text("brokers").split(",") if part.strip())
        if not addresses:
            raise OptionError("option brokers is missing: the address of a broker, tcp://HOST:PORT")
        for address in addresses:
            try:
                check_address(address)
            except ValueError as error:
                raise OptionError(f"option brokers: {error}") from None
        return addresses

    def filter_text(self, name: str, needed: bool = True) -> str:
        text = self.text(name)
        if not text and needed:
            raise OptionError(f"option {name} is missing: a filter, such as class = 'STOCK'")
        try:
            if text:
                parse(text)
        except FilterError as error:
            raise OptionError(f"option {name}: {error}") from None
        return text

    def word(self, name: str, words: tuple[str, ...], default: str) -> str:
        value = self.text(name).lower() or default
        if value not in words:
            raise OptionError(f"option {name} is {value!r}: it is {' or '.join(words)}")
        return value

    def offsets(self, name: str) -> dict[str, int] | int | None:
        """By stream, or one of the two words for all; None: not said."""
        text = self.text(name)
        if not text or text.lower() in WORDS:
            return WORDS[text.lower()] if text else None
        try:
            return msgspec.json.decode(text, type=dict[str, Annotated[int, msgspec.Meta(ge=EARLIEST)]])
        except msgspec.DecodeError as error:
            raise OptionError(
                f'option {name} is {text!r}: it is earliest, latest, or {{"stream": offset, ..}} ({error})'
            ) from None

    def number(self, name: str, default: float, most: float = 2**31) -> float:
        text = self.text(name)
        try:
            value = float(text or default)
        except ValueError:
            raise OptionError(f"option {name} is {text!r}: it is a number") from None
        if not 0 <= value < most:
            raise OptionError(f"option {name} is {text}: it is a number from 0 on")
        return value

    def whole(self, name: str, most: int) -> int:
        text = self.text(name)
        if text and not (text.isascii() and text.isdigit() and int(text) <= most):
            raise OptionError(f"option {name} is {text!r}: it is a whole number from 0 to {most}")
        return int(text or 0)

    def name(self, name: str) -> str:
        text = self.text(name)
        if len(text.encode()) > NAME_BYTES - 32:
            raise OptionError(f"option {name} is longer than {NAME_BYTES - 32} bytes")
        return text
