"""Keys with roles: what a key may not do, it cannot, on any path; and what it lost, it loses at once."""

from __future__ import annotations

import pytest

import grapevine
from grapevine.client.keys import client_keys
from grapevine.filters import EVERYTHING, parse
from grapevine.wire import encode, identify
from grapevine.wire.messages import (
    Answer,
    Attach,
    Attached,
    ClientSubscribe,
    Command,
    Deliver,
    Done,
    Hello,
    Marks,
    Publish,
    Refuse,
    Resume,
)
from tests.system.frames import Frames
from tests.system.overlay import Daemon, Overlay, eventually

NAMES = ("admin", "stocks", "reader", "guest", "b2", "watcher")
POLICY = """
[[key]]
name = "admin"
roles = ["admin", "publisher", "subscriber"]
[[key]]
name = "stocks"
roles = ["publisher"]
publish = "class = 'STOCK'"
[[key]]
name = "watcher"
roles = ["observer"]
[[key]]
name = "reader"
roles = ["subscriber"]
ask = "class = 'STOCK'"
"""


@pytest.fixture
def daemon(overlay: Overlay) -> Daemon:
    made = overlay.add("b1")
    for name in NAMES:
        client_keys(made.keys, name)
    write(made, POLICY)
    return made.start().ready()


def write(daemon: Daemon, text: str) -> None:
    (daemon.keys / "policy.toml").write_text(text)


def frames(daemon: Daemon, name: str) -> Frames:
    return Frames(daemon.address, daemon.keys, client_keys(daemon.keys, name))


def attach_of(client: Frames, name: str) -> Attach:
    return Attach(1, 1, name, identify(name), client.epoch, client.epoch, 1000, 0)


def test_a_publisher_outside_its_filter_and_an_honest_one(daemon: Daemon) -> None:
    with frames(daemon, "admin") as witness, frames(daemon, "stocks") as publisher:
        witness.attach("witness")
        witness.subscribe()
        publisher.attach("publisher")
        publisher.advertise()  # of everything: the filter counts all the same
        publisher.publish([{"class": "STOCK"}, {"class": "NEWS"}, {"n": 1}, {"class": "STOCK"}])
        marks = publisher.expect(Marks)
        while marks.settled < 4:
            marks = publisher.expect(Marks)
        assert [p.sequence for p in witness.deliveries(2)] == [1, 4]
        assert not isinstance(witness.receive(0.3), Deliver)
        assert [(cut.first, cut.last) for cut in marks.cuts] == [(2, 3)]


def test_a_subscriber_asks_within_its_filter_only(daemon: Daemon) -> None:
    with frames(daemon, "reader") as reader, frames(daemon, "admin") as publisher:
        reader.attach("reader")
        reader.send(ClientSubscribe(1, 1, EVERYTHING))
        done = reader.expect(Done)
        assert (done.outcome, "class" in done.text) == ("not-allowed", True)
        reader.subscribe(parse("class = 'STOCK' and n > 1"), 2)
        publisher.attach("publisher")
        publisher.advertise()
        publisher.publish([{"class": "NEWS", "n": 5}, {"class": "STOCK", "n": 5}])
        assert [p.sequence for p in reader.deliveries(1)] == [2]
        assert not isinstance(reader.receive(0.3), Deliver)


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("stocks", ClientSubscribe),
        ("reader", Publish),
        ("stocks", Command),
        ("reader", Hello),
        ("guest", Attach),
    ],
)
def test_the_right_key_in_the_wrong_role(daemon: Daemon, name: str, refused: type) -> None:
    with frames(daemon, name) as client:
        if refused is Attach:
            client.send(attach_of(client, name))
            assert client.receive(0.7) is None, "not in the policy: not even a word"
            return
        client.attach(name)
        if refused is ClientSubscribe:
            client.send(ClientSubscribe(1, 1, EVERYTHING))
            assert client.expect(Done).outcome == "not-allowed"
        elif refused is Command:
            client.send(Command(1, "reload", {}))
            assert client.expect(Answer).outcome == "not-allowed"
        elif refused is Publish:
            client.publish([{"class": "STOCK"}])
            eventually(lambda: "may not send Publish" in daemon.log())
        else:
            hello = Hello(2, 2, "b9", identify("b9"), 5, 5, False, 100, {}, (identify("b9"),))
            client.socket.send(encode(hello))
            eventually(lambda: "may not send Hello" in daemon.log())


def test_a_greeting_in_the_wrong_role_is_told_so(daemon: Daemon) -> None:
    write(daemon, POLICY + '[[key]]\nname = "b2"\nroles = ["broker"]\n')
    eventually(lambda: connects(daemon, "b2"))


def connects(daemon: Daemon, name: str) -> bool:
    with frames(daemon, name) as client:
        client.send(attach_of(client, name))
        return isinstance(client.receive(0.7), Refuse)


def test_the_library_says_not_allowed(daemon: Daemon) -> None:
    pair = daemon.keys / "stocks"
    pair.mkdir()
    for path in daemon.keys.glob("*.broker.toml"):
        (pair / path.name).write_text(path.read_text())
    secret = pair / "user.client.secret"
    secret.write_text((daemon.keys / "stocks.client.secret").read_text())
    secret.chmod(0o600)
    with grapevine.connect(daemon.address, name="p", keys=pair) as client:
        with pytest.raises(grapevine.NotAllowed, match="no role subscriber"):
            client.subscribe("n > 1", timeout=30)
        client.publish({"class": "NEWS"})
        with pytest.raises(grapevine.NotAllowed):
            client.flush(30)
        client.publish({"class": "STOCK"})
        client.flush(30)


def test_revocation_cuts_a_silent_connection_and_a_narrowed_filter_its_subscriptions(daemon: Daemon) -> None:
    with frames(daemon, "reader") as reader, frames(daemon, "admin") as publisher:
        reader.attach("reader")
        reader.subscribe(parse("class = 'STOCK'"))
        publisher.attach("publisher")
        publisher.advertise()
        write(daemon, POLICY.replace("ask = \"class = 'STOCK'\"", "ask = \"class = 'NEWS'\""))
        eventually(lambda: not subscriptions(daemon))
        publisher.publish([{"class": "STOCK"}])
        assert not isinstance(reader.receive(0.3), Deliver)
        write(daemon, POLICY.partition('[[key]]\nname = "reader"')[0])
        eventually(lambda: "its key is no longer authorised" in daemon.log())
        reader.send(attach_of(reader, "reader"))
        heard = [reader.receive(0.3) for _ in range(3)]
        assert not [message for message in heard if isinstance(message, Attached | Deliver)]


def subscriptions(daemon: Daemon) -> list[object]:
    with Frames(f"ipc://{daemon.control}") as admin:
        return list(admin.command("subs.ls")[1]["brokers"][0]["rows"])


def test_a_policy_with_one_bad_line_changes_nothing_and_says_which(daemon: Daemon) -> None:
    write(daemon, POLICY + '[[key]]\nname = "guest"\nroles = ["publisher"]\npublish = "class ="\n')
    with Frames(f"ipc://{daemon.control}") as admin:
        admin.command("reload")
    eventually(lambda: f"keys are left as they were: {daemon.keys}/policy.toml:19: publish" in daemon.log())
    with frames(daemon, "stocks") as client:
        assert isinstance(client.attach("stocks"), Attached)
    with frames(daemon, "guest") as client:
        client.send(attach_of(client, "guest"))
        assert client.receive(0.5) is None


def test_nobody_takes_over_a_client_of_another_key(daemon: Daemon) -> None:
    """It knows name, incarnation and epoch: its key is another."""
    with frames(daemon, "reader") as reader, frames(daemon, "admin") as thief:
        reader.attach("victim")
        reader.subscribe(parse("class = 'STOCK'"))
        resume = Resume(reader.epoch, 0, 0)
        thief.send(Attach(1, 1, "victim", identify("victim"), reader.epoch, reader.epoch, 1000, 0, resume))
        refuse = thief.expect(Refuse)
        assert "another key" in refuse.text


def test_brokers_without_the_role_do_not_join(overlay: Overlay, daemon: Daemon) -> None:
    joining = overlay.add("b2", "b1", transport={"ready_s": 0.5}).start()
    eventually(lambda: "no role broker" in joining.log())
    write(
        daemon, POLICY + "".join(f'[[key]]\nname = "{name}"\nroles = ["broker"]\n' for name in ("b1", "b2"))
    )
    eventually(lambda: "neighbour b1 is connected" in joining.log())


def test_a_refused_client_is_told_which_filter_it_may_publish(daemon: Daemon) -> None:
    client_keys(daemon.keys)
    policy = "[[key]]\nname = 'user'\nroles = ['publisher']\npublish = \"class = 'STOCK'\"\n"
    write(daemon, POLICY + policy)
    with grapevine.connect(daemon.address, keys=daemon.keys) as client:
        client.publish({"class": "NEWS"})
        with pytest.raises(
            grapevine.NotAllowed, match=r"publications 1: .* may publish class = 'STOCK' only"
        ):
            client.flush(timeout=10)


def test_a_revoked_client_hears_that_it_is_not_allowed(overlay: Overlay) -> None:
    """And not that something took too long."""
    daemon = overlay.start("b1")
    client = grapevine.connect(daemon.address, keys=daemon.keys)
    try:
        subscription = client.subscribe("n > 0")
        client.publish({"n": 0})
        client.flush(timeout=10)
        (daemon.keys / "user.client.toml").unlink()
        eventually(lambda: "no longer authorised" in daemon.log())
        client_keys(daemon.keys, "other")  # the library would write its entry anew
        (daemon.keys / "user.client.toml").write_text((daemon.keys / "other.client.toml").read_text())
        client.publish({"n": 1})
        with pytest.raises(grapevine.NotAllowed, match="does not know this client's key"):
            client.flush(timeout=30)
        with pytest.raises(grapevine.NotAllowed):
            client.subscribe("n > 1", timeout=30)
        with pytest.raises(grapevine.NotAllowed):
            subscription.next(timeout=30)
    finally:
        client.close(0)


def test_a_publishers_name_stays_its_keys_after_it_has_left(daemon: Daemon) -> None:
    """Over a restart too; a key that was taken away owns nothing any more."""
    with frames(daemon, "stocks") as publisher:
        publisher.attach("quotes")
        publisher.advertise()
    with frames(daemon, "stocks") as reader:
        reader.attach("no publisher")

    def refused() -> bool:
        with frames(daemon, "admin") as thief:
            thief.send(attach_of(thief, "quotes"))
            answer = thief.receive()
            return isinstance(answer, Refuse) and "another key" in answer.text

    assert refused()
    daemon.stop()
    daemon.start().ready()
    assert refused()
    with frames(daemon, "admin") as other:
        other.attach("no publisher")
    with frames(daemon, "stocks") as owner:
        owner.attach("quotes")
    write(daemon, POLICY.replace('name = "stocks"', 'name = "guest"'))
    eventually(lambda: not refused())


def test_an_observer_looks_and_touches_nothing(daemon: Daemon) -> None:
    """Every verb there is, on a new link and on one that was let in; and attaching as a client."""
    from overlay.administration.verbs import VERBS, Access

    def asked(verb: str) -> str:
        with frames(daemon, "watcher") as first:
            first.send(Command(1, verb, {"timeout_s": 0.5}))
            fresh = first.expect(Answer)
        with frames(daemon, "watcher") as second:
            second.send(Command(1, "status", {"timeout_s": 0.5}))
            assert second.expect(Answer).outcome == "ok"
            second.send(Command(2, verb, {"timeout_s": 0.5}))
            later = second.expect(Answer)
        assert fresh.outcome == later.outcome, verb
        return fresh.outcome

    for verb, access in VERBS.items():
        assert (asked(verb) == "not-allowed") is (access is Access.WRITE), verb
    assert asked("no.such.verb") == "not-allowed"
    assert asked("broker.move") == "not-allowed"
    with frames(daemon, "watcher") as client:
        client.send(attach_of(client, "watcher"))
        assert client.expect(Refuse).reason == "not-allowed"
