"""A back end, a broker and clients, links made by hand: subscribe, execute, pull, push, break, crash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from grapevine.client.session import Session
from grapevine.client.session.driving import ROW_BYTES
from grapevine.errors import ChannelError, ParameterError
from grapevine.wire.channels import BackendWelcome, ChannelRows, SubscribeChannel, position
from grapevine.wire.driving import Commit, PlanAsk, Put, Serve, Serving, run_of
from grapevine.wire.driving import decode_body as body_of
from overlay.channels.backend import BackEnd
from overlay.channels.desk import DriverDesk
from overlay.channels.frontend import FrontEnd
from tests.town import Town, founded, ids, publish, subscribe

ADMIN = 9_999_999  # a link


@pytest.fixture
def town() -> Town:
    return founded()


def test_results_come_to_who_asked(town: Town) -> None:
    for name, broker in (("ann", "edge"), ("bob", "edge"), ("eve", "back")):
        town.attach(name, broker)
    ann, bob, eve = (subscribe(town, *who) for who in (("ann", 0), ("bob", 2), ("eve", 2)))
    assert ann.confirmed and bob.confirmed and eve.confirmed, (ann.error, eve.error)
    publish(town, 1, 2, 3)
    assert town.drive() is not None
    assert ids(town, "ann", ann) == [1, 2, 3]
    assert ids(town, "bob", bob) == ids(town, "eve", eve) == [3]
    publish(town, 4)
    town.drive()
    assert ids(town, "ann", ann) == [4] == ids(town, "bob", bob)
    back = town.cores["back"].status()["back end"]
    assert back["back_end_subscriptions"] == 2, "equal sets are one, whoever asks"
    assert ann.parameters == {"low": 0} and ann.queue.maxlen is None


def test_many_subscribers_of_one_broker_cost_one_pull(town: Town) -> None:
    """BAD 3.1, A2: rows pulled are by back-end subscription and broker, not by subscriber."""
    states = {}
    for number in range(4):
        town.attach(f"s{number}", "edge")
        states[f"s{number}"] = subscribe(town, f"s{number}", 0)
    publish(town, 1, 2, 3, 4, 5)
    town.drive()
    assert all(ids(town, name, state) == [1, 2, 3, 4, 5] for name, state in states.items())
    assert town.cores["back"].status()["back end"]["pulled_rows"] == 5
    assert town.cores["edge"].status()["channels"]["pushed_rows"] == 20


def test_wrong_channel_and_parameter(town: Town) -> None:
    town.attach("ann", "edge")
    state = town.sessions["ann"][0].channels.subscribe("Neer", {"low": 1}, None, town.now, 5.0)
    town.run(0.1)
    assert isinstance(state.error, ChannelError) and "did you mean Near?" in str(state.error)
    state = town.sessions["ann"][0].channels.subscribe("Near", {"low": "x"}, None, town.now, 5.0)
    town.run(0.1)
    assert isinstance(state.error, ParameterError), state.error
    assert "parameter low: expected a number" in str(state.error)


def test_a_subscriber_that_was_away_misses_nothing(town: Town) -> None:
    """Also at another broker, and without any memory of its own."""
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1)
    town.drive()
    assert ids(town, "ann", ann) == [1]
    town.run(2.0)  # the cursor goes to the back end
    town.cut("ann")
    town.run(60.0)
    for number in range(2, 102):
        publish(town, number)
        assert town.drive() is not None, "its set must be run while it is away"
    town.attach("ann", "back", Session("ann", 999))
    again = subscribe(town, "ann", 0)
    assert ids(town, "ann", again) == list(range(2, 102))
    publish(town, 102)
    town.drive()
    assert ids(town, "ann", again) == [102]


def test_a_break_repeats_nothing_and_loses_nothing(town: Town) -> None:
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1, 2)
    town.drive()
    town.cut("ann")
    publish(town, 3)
    town.drive()
    town.attach("ann", "edge", session)
    assert ids(town, "ann", ann) == [1, 2, 3]


def test_what_came_and_was_not_taken_comes_again_after_a_crash(town: Town) -> None:
    """A client that attaches anew says what has come to it; its cursor is what the program has taken."""
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1)
    town.drive()
    assert ids(town, "ann", ann) == [1]
    publish(town, 2, 3)
    town.drive()
    assert len(ann.queue) == 2, "came, and nobody took them"
    town.cut("ann")
    town.attach("ann", "back", session)
    town.run(3.0)
    town.cut("ann")
    town.attach("ann", "edge", Session("ann", 999))
    assert ids(town, "ann", subscribe(town, "ann", 0)) == [2, 3]


def test_what_is_sent_between_a_resume_and_the_clients_word_hides_no_loss(town: Town) -> None:
    """Rows were lost with the old link; newer ones must not come on the new link before the client has said
    where it is."""
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1)
    town.drive()
    assert ids(town, "ann", ann) == [1]
    carry = town._carry

    def lose_rows(place: str, link: int, message: Any) -> None:
        if not isinstance(message, ChannelRows) or place != "edge":
            carry(place, link, message)

    town._carry = lose_rows  # type: ignore[method-assign]
    publish(town, 2)
    town.drive()
    town._carry = carry  # type: ignore[method-assign]
    town.cut("ann")
    held: list[Any] = []

    def hold_word(place: str, link: int, message: Any) -> None:
        if isinstance(message, SubscribeChannel):
            held.append((place, link, message))
        else:
            carry(place, link, message)

    town._carry = hold_word  # type: ignore[method-assign]
    town.attach("ann", "edge", session)
    publish(town, 3)
    town.drive()
    town._carry = carry  # type: ignore[method-assign]
    for each in held:
        carry(*each)
    town.run(1.0)
    assert ids(town, "ann", ann) == [2, 3]


def test_a_link_that_breaks_before_the_back_end_has_welcomed_us(town: Town) -> None:
    """The greeting was done and nothing had been said yet: the broker must dial again all the same."""
    carry, broken = town._carry, []

    def break_once(place: str, link: int, message: Any) -> None:
        if isinstance(message, BackendWelcome) and not broken:
            broken.append(link)
            other, theirs = town.pipes.pop((place, link))
            del town.pipes[other, theirs]
            town._down(place, link)
            town._down(other, theirs)
        else:
            carry(place, link, message)

    town._carry = break_once  # type: ignore[method-assign]
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    assert broken and not ann.confirmed
    town.run(3.0)
    assert ann.confirmed, "nobody dialled again"


@pytest.mark.parametrize("moment", ["planned", "put", "committed"])
def test_a_back_end_that_is_killed(town: Town, moment: str) -> None:
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1, 2)
    first = town.drive(commit=moment == "committed")
    town.crash("back")
    del town.sessions["driver"]
    town.run(1.0)
    town.start("back")
    town.run(10.0)
    publish(town, 3)
    second = town.drive()
    assert first is not None and second is not None
    if moment == "committed":
        assert second.execution == first.execution + 1
    else:
        assert second == first, "the same input for the same execution"
        town.drive()
    assert ids(town, "ann", ann) == [1, 2, 3]
    assert session.channels.by_number


def test_a_broker_that_is_killed(town: Town) -> None:
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1)
    town.drive()
    assert ids(town, "ann", ann) == [1]
    publish(town, 2)
    town.drive()
    town.crash("edge")
    town.start("edge")
    town.run(5.0)
    town.attach("ann", "edge", session)
    town.run(1.0)
    assert ids(town, "ann", ann) == [2]


def test_a_slow_subscriber_gets_all_of_it_bit_by_bit(town: Town) -> None:
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    from grapevine.client.session import channels

    assert channels.WINDOW_BYTES == 1 << 20
    publish(town, *range(1, 41))
    for _ in range(5):
        town.drive(rows=1200)
        publish(town, *range(1, 41))
    edge = next(b for b in town.cores["edge"].behaviours if type(b).__name__ == "FrontEnd")
    town.run(1.0)
    (fe,) = edge.by_client[next(iter(edge.by_client))].values()  # type: ignore[attr-defined]
    assert 0 < fe.flight_bytes <= fe.window + 100
    assert len(ann.queue) < 5 * 40 * 1200
    found = 0
    while taken := town.sessions["ann"][0].channels.take(ann, 5000):
        found += len(taken)
        town.run(0.1)
    assert found == 5 * 40 * 1200


def test_rows_as_large_as_a_message_may_be(town: Town) -> None:
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1)
    plan = town.drive(commit=False)
    assert plan is not None
    lease = body_of(town.ask("serve", Serve("d", 1)).body, Serving).lease
    (be,) = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd)).store.interest.by_be
    row = msgspec.msgpack.encode((1.0, {"id": "x" * (ROW_BYTES - 40)}))
    where = (lease, "Near", 1, plan.execution, 8)
    for piece in range(3):
        assert town.ask("put", Put(*where, piece, [run_of(be, [row])])).outcome == "done"
    assert town.ask("commit", Commit(*where, 3)).outcome == "done"
    found: list[Any] = []
    for _ in range(3):  # one at a time: each is more than the window
        found += ids(town, "ann", ann)
    assert [len(each) for each in found] == [ROW_BYTES - 40] * 3


def test_who_was_away_for_long_holds_up_nobody(town: Town) -> None:
    """A pull looks into so many executions and no more: what is left is pulled next."""
    town.validates = False
    town.attach("eve", "edge")
    town.attach("ann", "edge")
    eve, ann = subscribe(town, "eve", 300), subscribe(town, "ann", 0)
    town.run(2.0)
    town.cut("eve")
    for number in range(1, 302):
        publish(town, number)
        town.drive()
    assert len(ids(town, "ann", ann)) == 301 and eve.last < position(2)
    reads: list[int] = []
    results, read = town.disks.results, town.disks.results.read

    def counted(channel: str, execution: int, be: int) -> list[bytes]:
        reads.append(execution)
        return read(channel, execution, be)

    results.read = counted  # type: ignore[method-assign]
    backend = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd))
    pulls = backend.pulls
    town.attach("eve", "edge", Session("eve", 999))
    again = subscribe(town, "eve", 300)
    assert ids(town, "eve", again) == [301]
    assert backend.pulls - pulls == 3 and 301 <= len(reads) <= 303


def test_a_pull_does_not_walk_through_what_is_kept_before_it(town: Town) -> None:
    """A day of executions every second, for each range of a pull: that was all the back end did."""
    town.attach("ann", "edge")
    subscribe(town, "ann", 0)
    looked: list[int] = []

    class Counted(list[int]):
        def __getitem__(self, at: Any) -> Any:
            looked.append(at)
            return super().__getitem__(at)

        def __iter__(self) -> Iterator[int]:
            return (self[at] for at in range(len(self)))

    kept = Counted(range(1, 86_401))
    town.disks.results.executions = lambda channel: kept  # type: ignore[method-assign]
    backend = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd))
    (be,) = backend.store.interest.by_be
    assert backend._read(be, position(86_399), 86_400, 1 << 20) == ([], position(86_400), 0)
    assert len(looked) < 50


def test_who_leaves_with_many_subscriptions_says_once_where_it_is(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand of them held a broker up for a quarter of a minute."""
    session = town.attach("ann", "edge")
    for low in range(50):
        session.channels.subscribe("Near", {"low": low}, None, town.now, 5.0)
    town.run(0.1)
    said: list[object] = []
    front = next(b for b in town.cores["edge"].behaviours if isinstance(b, FrontEnd))
    monkeypatch.setattr(front, "_tell_cursors", said.append)
    (client,) = front.by_client
    front.link_lost(client, town.now)
    assert said == [client] and not front.by_client
    front.validate()


def test_an_idle_channel_counts_nothing(town: Town) -> None:
    publish(town, 1, 2, 3)
    assert town.drive() is None
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 4)
    plan = town.drive()
    assert plan is not None and plan.execution == 1
    assert ids(town, "ann", ann) == [4], "what came before its first execution is not new"


def test_a_second_driver_is_refused_and_an_old_lease_too(town: Town) -> None:
    town.attach("driver", "back")
    lease = body_of(town.ask("serve", Serve("d", 1)).body, Serving).lease
    assert town.ask("serve", Serve("e", 1)).outcome == "busy"
    town.run(70.0)
    assert body_of(town.ask("serve", Serve("e", 1)).body, Serving).lease == lease + 1
    assert town.ask("plan", PlanAsk(lease, "Near", 1)).outcome == "lease"


def test_a_driver_that_ends_gives_its_lease_back(town: Town) -> None:
    town.attach("driver", "back")
    lease = body_of(town.ask("serve", Serve("d", 1)).body, Serving).lease
    town.ask("end", Serve("e", 1))
    assert town.ask("serve", Serve("e", 1)).outcome == "busy", "it is not another one's to give back"
    town.ask("end", Serve("d", 1))
    assert town.ask("plan", PlanAsk(lease, "Near", 1)).outcome == "lease", "what it had under way is void"
    desk = next(b for b in town.cores["back"].behaviours if isinstance(b, DriverDesk))
    assert desk.status()["driver"] is None and desk.since == town.now
    assert body_of(town.ask("serve", Serve("e", 1)).body, Serving).lease > lease + 1


def test_a_set_that_nobody_wants_leaves(town: Town) -> None:
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    town.sessions["ann"][0].channels.unsubscribe(ann)
    town.run(60.0)
    assert town.cores["back"].status()["back end"]["back_end_subscriptions"] == 0
    publish(town, 1)
    assert town.drive() is None


@pytest.mark.parametrize("value", ["x" * 100_000, 1e308, -(2**63), b"\xff", None, [1], {"a": 1}])
def test_whatever_a_subscriber_gives_the_back_end_answers(town: Town, value: Any) -> None:
    town.attach("ann", "edge")
    state = town.sessions["ann"][0].channels.subscribe("Near", {"low": value}, None, town.now, 5.0)
    town.run(0.1)
    assert state.confirmed or isinstance(state.error, ParameterError)
    assert state.error is None or len(str(state.error)) < 500, "its own words are not sent back at length"


@pytest.mark.parametrize("value", [2**64, object(), "\ud800", {1, 2j}])
def test_what_cannot_be_sent_is_refused_at_once(town: Town, value: Any) -> None:
    session = town.attach("ann", "edge")
    with pytest.raises(ParameterError, match="parameter low"):
        session.channels.subscribe("Near", {"low": value}, None, town.now, 5.0)
    assert not session.channels.by_number


@pytest.mark.parametrize(("name", "after"), [("x" * 300, None), ("Near", -5), ("Near", 2**70)])
def test_what_the_broker_could_not_read_is_not_sent(town: Town, name: str, after: int | None) -> None:
    session = town.attach("ann", "edge")
    with pytest.raises(ChannelError):
        session.channels.subscribe(name, {"low": 1}, after, town.now, 5.0)


def test_two_subscriptions_to_one_set_go_on_after_the_one_that_is_behind(town: Town) -> None:
    town.attach("ann", "edge")
    quick, slow = subscribe(town, "ann", 0), subscribe(town, "ann", 0)
    publish(town, 1)
    town.drive()
    assert ids(town, "ann", quick) == [1] == ids(town, "ann", slow)
    town.run(2.0)
    publish(town, 2)
    town.drive()
    assert ids(town, "ann", quick) == [2]
    town.run(2.0)
    town.cut("ann")
    town.attach("ann", "edge", Session("ann", 99))  # a new process that remembers nothing
    again = subscribe(town, "ann", 0)
    assert ids(town, "ann", again) == [2], "the slow one had not taken it"


def test_one_of_two_subscriptions_to_one_set_ends(town: Town) -> None:
    town.attach("ann", "edge")
    one, other = subscribe(town, "ann", 0), subscribe(town, "ann", 0)
    publish(town, 1)
    town.drive()
    assert ids(town, "ann", one) == [1] == ids(town, "ann", other)
    town.run(2.0)
    town.sessions["ann"][0].channels.unsubscribe(one)
    town.run(0.1)
    town.cut("ann")
    publish(town, 2)
    town.drive()
    town.attach("ann", "edge", Session("ann", 99))
    assert ids(town, "ann", subscribe(town, "ann", 0)) == [2], "the other's position is still known"


def test_who_was_away_for_a_hundred_executions_and_comes_back_elsewhere_has_all() -> None:
    town = founded(("edge", "far"))
    town.validates = False
    town.attach("eve", "edge")
    eve = subscribe(town, "eve", 0)
    publish(town, 1)
    town.drive()
    assert ids(town, "eve", eve) == [1]
    town.run(2.0)
    town.cut("eve")
    for number in range(2, 102):
        publish(town, number)
        plan = town.drive()
    assert plan is not None and plan.execution == 101
    town.attach("eve", "far", Session("eve", 99))
    assert ids(town, "eve", subscribe(town, "eve", 0)) == list(range(2, 102))
