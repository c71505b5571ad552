"""The blocking client against real daemons: promises, fail-over, errors."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

import grapevine
from grapevine.client.session import State
from tests.system.overlay import Daemon, Overlay, eventually, free_port


def connect(daemon: Daemon, name: str | None = None, **options: object) -> grapevine.Client:
    return grapevine.connect(daemon.address, name, keys=daemon.keys, **options)  # type: ignore[arg-type]


def read(subscription: grapevine.Subscription, count: int, timeout: float = 10.0) -> list[int]:
    """The sequence numbers of the next `count` messages."""
    got: list[int] = []
    end = time.monotonic() + timeout
    while len(got) < count and time.monotonic() < end:
        got += [m.sequence for m in subscription.next_batch(count - len(got), timeout=0.2)]
    return got


def test_publish_subscribe_flush(overlay: Overlay) -> None:
    b1 = overlay.start("b1")
    with connect(b1, "quotes") as publisher, connect(b1, "desk") as reader:
        assert publisher.broker == "b1"
        publisher.advertise("class = 'STOCK'")
        cheap = reader.subscribe("class = 'STOCK' and volume < 3")
        odd = reader.subscribe("odd")
        for n in range(4):
            publisher.publish({"class": "STOCK", "volume": n, "odd": n % 2 == 1}, b"payload %d" % n)
        publisher.flush(timeout=30)
        messages = cheap.next_batch(10, timeout=30)
        assert [m.attributes["volume"] for m in messages] == [0, 1, 2]
        message = messages[1]
        assert message.payload == b"payload 1" and message.sequence == 2 and message.hops == 0
        assert (message.publisher, message.broker) == ("quotes", "b1")
        assert message.subscriptions == (cheap.number, odd.number)
        assert read(odd, 2) == [2, 4] and odd.next(timeout=0.05) is None
        cheap.unsubscribe()
        with pytest.raises(grapevine.Closed):
            cheap.next(timeout=1)
        with pytest.raises(grapevine.NotAllowed):
            publisher.publish({"class": "NEWS"})
        with pytest.raises(grapevine.FilterError):
            reader.subscribe("volume >")
    with pytest.raises(grapevine.Closed):
        publisher.publish({"class": "STOCK"})


def test_iteration_ends_when_another_thread_unsubscribes(overlay: Overlay) -> None:
    b1 = overlay.start("b1")
    with connect(b1) as client:
        subscription = client.subscribe("a > 0")
        timer = threading.Timer(0.3, subscription.unsubscribe)
        timer.start()
        client.publish({"a": 1})
        assert [m.sequence for m in subscription] == [1]
        timer.join()


def test_who_leaves_a_loop_finds_the_rest_later(overlay: Overlay) -> None:
    b1 = overlay.start("b1")
    with connect(b1) as client:
        subscription = client.subscribe("a > 0")
        for n in range(1, 301):
            client.publish({"a": n})
        client.flush(timeout=30)
        got = []
        while len(got) < 300:
            for message in subscription:
                got.append(message.sequence)
                if len(got) % 7 == 0 or len(got) == 300:
                    break
            if len(got) < 300 and (other := subscription.next(timeout=10)):
                got.append(other.sequence)
        assert got == list(range(1, 301))


def test_close_hands_over_everything_published(overlay: Overlay) -> None:
    b1, b2 = overlay.start("b1"), overlay.start("b2", "b1")
    with connect(b2) as reader:
        subscription = reader.subscribe("n >= 0")
        with connect(b1) as publisher:
            for n in range(5_000):
                publisher.publish({"n": n})
        assert read(subscription, 5_000) == list(range(1, 5_001))


def test_small_windows_hold_back_and_lose_nothing(overlay: Overlay) -> None:
    b1 = overlay.start("b1")
    with connect(b1, publish_window=16) as publisher, connect(b1, receive_window=8) as reader:
        subscription = reader.subscribe("n >= 0")
        sender = threading.Thread(target=lambda: [publisher.publish({"n": n}) for n in range(2_000)])
        sender.start()
        assert read(subscription, 2_000) == list(range(1, 2_001))
        sender.join(5)
        publisher.flush(30)


def test_reader_that_stops_is_counted_and_others_go_on(overlay: Overlay) -> None:
    b1 = overlay.start("b1", clients={"queue": 100})
    with connect(b1) as publisher, connect(b1, receive_window=50) as lazy, connect(b1) as eager:
        slow, fast = lazy.subscribe("n >= 0"), eager.subscribe("n >= 0")
        for n in range(2_000):
            publisher.publish({"n": n})
        publisher.flush(30)
        assert read(fast, 2_000) == list(range(1, 2_001))
        eventually(lambda: slow.dropped == 2_000 - 100 - 50)  # it hears of its losses piece by piece
        # Its window first, then the newest that its queue at the broker kept.
        assert read(slow, 150) == [*range(1, 51), *range(1_901, 2_001)]


def test_fail_over_to_the_next_broker(overlay: Overlay) -> None:
    b1, b2 = overlay.start("b1"), overlay.start("b2", "b1")
    b3 = overlay.start("b3", "b1")
    brokers = [b2.address, b3.address]
    with grapevine.connect(brokers, "desk", keys=b1.keys) as reader, connect(b1, "quotes") as publisher:
        subscription = reader.subscribe("n >= 0")
        assert reader.broker == "b2"
        publisher.publish({"n": 0})
        publisher.flush(30)
        b2.kill()
        eventually(lambda: reader.broker == "b3")
        eventually(lambda: _confirmed(subscription))
        publisher.publish({"n": 1})
        assert read(subscription, 2) == [1, 2]


def test_publisher_sends_again_what_a_killed_broker_had_not_settled(overlay: Overlay) -> None:
    b1, b2, b3 = overlay.start("b1"), overlay.start("b2", "b1"), overlay.start("b3", "b1")
    publisher = grapevine.connect([b2.address, b3.address], "quotes", keys=b1.keys)
    with publisher, connect(b1, "desk") as reader:
        subscription = reader.subscribe("n >= 0")
        publisher.publish({"n": -1})
        publisher.flush(30)
        for n in range(3_000):
            publisher.publish({"n": n})
            if n == 1_000:
                b2.kill()
        # Not before the killed one is given up. What is sent again is named: it may have been owed behind it.
        with pytest.raises(grapevine.Undelivered) as told:
            publisher.flush(90)
        assert told.value.ranges[0][0] > 1
        assert publisher.partial == ("b2",)
        assert publisher.broker == "b3"
        # Sequence 1 did not match; everything settled arrives once, in order.
        assert read(subscription, 3_000, 20) == list(range(2, 3_002))
        assert subscription.next(timeout=0.3) is None


def test_restarted_broker_is_found_again(overlay: Overlay) -> None:
    b1 = overlay.start("b1")
    with connect(b1, "quotes") as publisher, connect(b1, "desk") as reader:
        subscription = reader.subscribe("n >= 0")
        publisher.publish({"n": 0})
        publisher.flush(30)
        b1.kill()
        eventually(lambda: reader._session.state != State.ATTACHED)
        publisher.publish({"n": 1})
        b1.start().ready()
        eventually(lambda: reader._session.state == State.ATTACHED and _confirmed(subscription))
        publisher.publish({"n": 2})
        publisher.flush(30)
        got = read(subscription, 3, 3)
        assert got[0] == 1 and got[-1] == 3 and got == sorted(set(got))


def test_stopping_broker_sends_its_clients_on(overlay: Overlay) -> None:
    b1, b2 = overlay.start("b1"), overlay.start("b2", "b1")
    with connect(b2, "desk") as reader:
        subscription = reader.subscribe("n >= 0")
        assert b2.stop() == 0
        # Only b2 was given; it named b1 as its neighbour.
        eventually(lambda: reader.broker == "b1" and _confirmed(subscription))
        with connect(b1) as publisher:
            publisher.publish({"n": 7})
            assert subscription.next(timeout=30) is not None


def _confirmed(subscription: grapevine.Subscription) -> bool:
    return subscription._state.confirmed


# --- one clear error each ---------------------------------------------------------------------------


def test_second_client_with_a_name_is_refused(overlay: Overlay) -> None:
    b1 = overlay.start("b1", links={"greet_s": 20.0})  # the first has half of it to answer
    with connect(b1, "desk"), pytest.raises(grapevine.NotAllowed, match="desk"):
        connect(b1, "desk", timeout=30)


def test_nobody_there() -> None:
    with pytest.raises(grapevine.Unreachable, match="cannot be reached"):
        grapevine.connect(f"tcp://127.0.0.1:{free_port()}", keys=False, timeout=0.5)


def test_broker_without_an_entry(tmp_path: Path) -> None:
    with pytest.raises(grapevine.Unreachable, match="keys=False"):
        grapevine.connect(f"tcp://127.0.0.1:{free_port()}", keys=tmp_path, timeout=0.3)


def test_stranger_is_refused(overlay: Overlay, tmp_path: Path) -> None:
    b1 = overlay.start("b1")
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    shutil.copy(b1.keys / "b1.broker.toml", stranger)
    with pytest.raises(grapevine.NotAllowed, match="key"):
        grapevine.connect(b1.address, keys=stranger, timeout=30)
    with pytest.raises(grapevine.Unreachable, match="encryption"):
        grapevine.connect(b1.address, keys=False, timeout=1)


def test_key_file_that_others_may_read_is_named(overlay: Overlay) -> None:
    b1 = overlay.start("b1")
    connect(b1).close()
    secret = b1.keys / "user.client.secret"
    secret.chmod(0o644)
    with pytest.raises(grapevine.Error, match=f"chmod 600 {secret}"):
        connect(b1, timeout=30)


@pytest.mark.parametrize(
    ("brokers", "options"),
    [([], {}), ("udp://a:1", {}), ("tcp://a:1", {"on_slow": "panic"}), ("tcp://a:1", {"name": ""}),
     ("tcp://a:1", {"publish_window": 0})],
)  # fmt: skip
def test_mistakes_in_connect(brokers: object, options: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        grapevine.connect(brokers, **options)  # type: ignore[arg-type]
