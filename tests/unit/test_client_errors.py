"""client.md: everything that the library raises on purpose is a grapevine.Error."""

from __future__ import annotations

import math
from typing import Any

import pytest

import grapevine
from grapevine.client.options import as_filter, make_engine
from grapevine.client.session import Session
from grapevine.wire.limits import PAYLOAD_BYTES

UNPUBLISHABLE: list[Any] = [
    {"x": math.nan},
    {"x": 2**63},
    {"x": -(2**63) - 1},
    {"x": 2**200},
    {"x": None},
    {"x": [1]},
    {"x": b"bytes"},
    {None: 1},
    {"": 1},
    {"x": "\ud800"},
    None,
    [("x", 1)],
]


@pytest.mark.parametrize("attributes", UNPUBLISHABLE, ids=lambda value: repr(value)[:40])
def test_attributes_that_cannot_be_published(attributes: Any) -> None:
    session = Session("x", 1)
    with pytest.raises(grapevine.Invalid) as caught:
        session.publish(attributes)
    assert isinstance(caught.value, grapevine.Error | ValueError)
    if isinstance(attributes, dict) and "x" in attributes:
        assert "x" in str(caught.value), "it names the attribute"
    assert session.publish({"x": 1}) == 1, "nothing of it was kept"


@pytest.mark.parametrize("payload", [None, 5, "text", bytes(PAYLOAD_BYTES + 1)], ids=lambda v: str(v)[:9])
def test_payloads_that_cannot_be_published(payload: Any) -> None:
    session = Session("x", 1)
    with pytest.raises(grapevine.Invalid, match="payload"):
        session.publish({"x": 1}, payload)
    assert session.publish({"x": 1}, bytearray(b"fine")) == 1


@pytest.mark.parametrize("filter", [None, 5, math.nan, "x = nan", "x > 99999999999999999999"])
def test_filters_that_are_none(filter: Any) -> None:
    with pytest.raises(grapevine.FilterError):
        as_filter(filter)


@pytest.mark.parametrize(
    "said",
    [
        {"brokers": []},
        {"brokers": "http://here"},
        {"name": ""},
        {"on_slow": "wait"},
        {"publish_window": 0},
    ],
)
def test_arguments_of_connect(said: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "brokers": "tcp://127.0.0.1:1",
        "name": "x",
        "on_slow": "drop_oldest",
        "publish_window": 1,
        "receive_window": 1,
        "keys": False,
        "incarnation": None,
    }
    with pytest.raises(grapevine.Invalid):
        make_engine(**{**given, **said})


def test_outside_of_what_was_advertised_names_what_was() -> None:
    session = Session("x", 1)
    session.advertise(as_filter("class = 'STOCK'"), 0.0)
    with pytest.raises(grapevine.NotAllowed, match="advertised: class = 'STOCK'"):
        session.publish({"class": "NEWS"})
