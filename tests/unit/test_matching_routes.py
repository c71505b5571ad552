"""The route cache keeps what came twice, stays within its limit and forgets with the generation."""

from __future__ import annotations

from matching.routes import RouteCache


def test_a_route_is_kept_from_the_second_time_on() -> None:
    cache = RouteCache()
    routes = cache.at(1)
    cache.offer(b"a", 1)
    assert routes.get(b"a") is None
    cache.offer(b"a", 1)
    assert routes.get(b"a") == 1


def test_attributes_that_never_repeat_leave_nothing() -> None:
    cache = RouteCache(limit=10)
    routes = cache.at(1)
    for number in range(1000):
        cache.offer(b"%d" % number, number)
    assert routes == {}
    assert len(cache._once) <= 10


def test_the_cache_is_bounded() -> None:
    cache = RouteCache(limit=10)
    routes = cache.at(1)
    for number in range(1000):
        cache.offer(b"%d" % number, number)
        cache.offer(b"%d" % number, number)
        assert len(routes) <= 10
    assert routes


def test_a_new_generation_knows_nothing_of_the_old() -> None:
    cache = RouteCache()
    cache.at(1)
    cache.offer(b"a", 1)
    cache.offer(b"a", 1)
    assert cache.at(1) == {b"a": 1}
    assert cache.at(2) == {}
    cache.offer(b"a", 2)
    assert cache.at(2) == {}
