"""The door keeper refuses whatever it is not sure of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq
from zmq.utils import z85

from daemon.sockets import Socket
from daemon.zap import Gate

KEY = bytes(range(32))


class Known:
    def __init__(self, *keys: bytes) -> None:
        self._keys = {z85.encode(key).decode() for key in keys}

    def allows(self, key: str) -> bool:
        if not self._keys:
            raise RuntimeError("the directory is gone")
        return key in self._keys


def request(domain: bytes, mechanism: bytes, *credentials: bytes) -> list[bytes]:
    return [b"1.0", b"7", domain, b"127.0.0.1", b"", mechanism, *credentials]


@pytest.fixture
def context() -> Iterator[zmq.Context[Socket]]:
    made: zmq.Context[Socket] = zmq.Context()
    yield made
    made.destroy(0)


def test_the_two_ways_in(context: zmq.Context[Socket]) -> None:
    gate = Gate(context, Known(KEY))  # type: ignore[arg-type]
    assert gate._reply(request(b"keys", b"CURVE", KEY)) == [b"1.0", b"7", b"200", b"OK", z85.encode(KEY), b""]
    assert gate._reply(request(b"wire", b"NULL"))[2] == b"200"
    assert gate.refused == 0


@pytest.mark.parametrize(
    "asked",
    [
        request(b"keys", b"CURVE", b"\1" * 32),
        request(b"keys", b"CURVE", b"short"),
        request(b"keys", b"CURVE"),
        request(b"keys", b"NULL"),
        request(b"keys", b"PLAIN", b"user", b"password"),
        request(b"wire", b"CURVE", KEY),
        request(b"", b"NULL"),
        request(b"other", b"CURVE", KEY),
        [b"2.0", *request(b"keys", b"CURVE", KEY)[1:]],
        [b"1.0", b"7"],
        [],
    ],
)
def test_everything_else_is_refused(context: zmq.Context[Socket], asked: list[bytes]) -> None:
    gate = Gate(context, Known(KEY))  # type: ignore[arg-type]
    assert gate._reply(asked)[2] == b"400"
    assert gate.refused == 1


def test_an_error_of_ours_is_a_refusal(context: zmq.Context[Socket]) -> None:
    assert Gate(context, Known())._reply(request(b"keys", b"CURVE", KEY))[2] == b"400"  # type: ignore[arg-type]


def test_without_keys_no_key_gets_in(context: zmq.Context[Socket]) -> None:
    assert Gate(context, None)._reply(request(b"keys", b"CURVE", KEY))[2] == b"400"
