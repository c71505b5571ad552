"""The route cache keeps what came twice, stays within its limit and forgets with the generation."""

from __future__ import annotations

from matching.routes import Routes


def test_a_route_is_kept_from_the_second_time_on() -> None:
    routes: Routes[int] = Routes()
    routes.learn(b"a", 1)
    assert routes.known.get(b"a") is None
    routes.learn(b"a", 1)
    assert routes.known.get(b"a") == 1


def test_attributes_that_never_repeat_leave_nothing() -> None:
    routes: Routes[int] = Routes(limit=10)
    for number in range(1000):
        routes.learn(b"%d" % number, number)
    assert routes.known == {}
    assert len(routes._once) <= 10


def test_the_cache_is_bounded() -> None:
    routes: Routes[int] = Routes(limit=10)
    for number in range(1000):
        routes.learn(b"%d" % number, number)
        routes.learn(b"%d" % number, number)
        assert len(routes.known) <= 10


def test_forgetting_keeps_the_dict_that_a_loop_holds() -> None:
    routes: Routes[int] = Routes()
    known = routes.known
    routes.learn(b"a", 1)
    routes.learn(b"a", 1)
    routes.forget()
    assert known.get(b"a") is None and routes.known is known and routes.generation == 1
    routes.learn(b"a", 2)
    routes.learn(b"a", 2)
    assert known[b"a"] == 2
