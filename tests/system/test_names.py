"""What a message says of where it came from, when its publisher is somewhere else by now."""

from __future__ import annotations

import grapevine
from tests.system.overlay import Daemon, Overlay, eventually
from tests.system.test_pubctl import Pubctl


def test_the_broker_of_a_message_is_the_one_that_accepted_it(overlay: Overlay) -> None:
    """After a fail-over, and after a relocation."""
    hub = overlay.start("hub", links={"lost_after_s": 5.0})
    ends = [overlay.start(name, "hub", links={"lost_after_s": 5.0}) for name in ("b1", "b2")]
    addresses = [end.address for end in ends]
    with (
        grapevine.connect(hub.address, "reader", keys=hub.keys) as reader,
        grapevine.connect(addresses, "feed", keys=hub.keys) as feed,
    ):
        messages = reader.subscribe("n > 0")

        def brokers(*numbers: int) -> list[str]:
            for n in numbers:
                feed.publish({"n": n})
            feed.flush(timeout=60)
            return [message.broker for message in messages.next_batch(100, timeout=10)]

        assert brokers(1, 2) == ["b1", "b1"]
        ends[0].kill()
        eventually(lambda: feed.broker == "b2", timeout_s=60)
        assert set(brokers(3, 4)) == {"b2"}
        assert set(brokers(5)) == {"b2"}
        ends[0].start().ready()
        eventually(lambda: len(statuses(hub)) == 3, timeout_s=60)
        relocated = Pubctl(hub.keys, "hub")
        relocated("relocate", "apply", "feed", "b1", "--yes")
        eventually(lambda: set(brokers(6)) == {"b1"}, timeout_s=30)


def statuses(daemon: Daemon) -> list[str]:
    return [row["state"] for row in Pubctl(daemon.keys, daemon.name).json("status")["rows"]]
