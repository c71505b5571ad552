"""A traceparent goes through five brokers, soft links and a relocation unchanged."""

from __future__ import annotations

import secrets

import pytest

import grapevine
from tests.system.overlay import Overlay, eventually
from tests.system.test_pubctl import Pubctl

pytestmark = pytest.mark.slow


def test_through_five_brokers_soft_links_and_a_relocation(overlay: Overlay) -> None:
    sections = {
        "overlay": {"delta": 4},
        "softlinks": {"strategy": "SD", "interval_s": 1.0},
        "relocation": {"algorithm": "off"},
    }
    names = [f"b{n}" for n in range(1, 6)]
    for above, name in zip(("", *names), names, strict=False):
        overlay.start(name, above, **sections)
    first, last = overlay["b1"], overlay["b5"]
    pubctl = Pubctl(first.keys)
    with (
        grapevine.connect(last.address, "reader", keys=last.keys) as reader,
        grapevine.connect(first.address, "feed", keys=first.keys) as feed,
    ):
        messages = reader.subscribe("n >= 0")
        sent: list[str | None] = []

        def publish(count: int) -> None:
            for _ in range(count):
                fresh = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
                sent.append(fresh if len(sent) % 3 else None)
                feed.publish({"n": len(sent)}, context=sent[-1])
            feed.flush(timeout=60)

        got: list[tuple[int, str | None, int]] = []

        def read() -> list[int]:
            """All that was sent; how many brokers each had passed."""
            before = len(got)
            while len(got) < len(sent) and (batch := messages.next_batch(1000, timeout=10)):
                got.extend((message.sequence, message.context, message.hops) for message in batch)
            return [hops for *_, hops in got[before:]]

        publish(30)
        assert set(read()) == {4}, "the long way"

        def bypassed() -> bool:
            publish(50)
            return min(read()) < 4

        eventually(bypassed, timeout_s=60, every_s=0.3)
        links: list[dict[str, object]] = pubctl.json("link", "ls")["rows"]
        assert any("soft" in (row.get("kind"), row.get("role")) for row in links)
        pubctl("relocate", "apply", "feed", "b4", "--yes", "-t", "30s")
        publish(100)
        assert read()[-1] == 1, "from next door"
    assert [context for _, context, _ in got] == sent
