"""Routes by the bytes of a publication's attributes, for traffic that repeats itself.

The caller looks into `known` with a plain dict get and asks `learn` for what it did not find. Only
attributes seen twice are kept, else content that never repeats would fill the cache with dead routes. All is
forgotten when the generation changes: whoever changes a table that a route depends on calls `forget`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

Route = TypeVar("Route")


class Routes(Generic[Route]):
    __slots__ = ("_limit", "_once", "generation", "known")

    def __init__(self, limit: int = 4096) -> None:
        self.known: dict[bytes, Route] = {}  # the same object for ever, so that a loop may hold it
        self._once: dict[bytes, None] = {}
        self._limit = limit
        self.generation = 0

    def learn(self, attributes: bytes, route: Route) -> None:
        """Remember a route that was worked out, if these attributes were here before."""
        if attributes not in self._once:
            if len(self._once) >= self._limit:
                self._once.clear()
            self._once[attributes] = None
            return
        del self._once[attributes]
        if len(self.known) >= self._limit:
            self.known.clear()
        self.known[attributes] = route

    def forget(self) -> None:
        """The tables have changed: nothing that was known holds any more."""
        self.generation += 1
        if self.known:
            self.known.clear()


class RouteCache:
    """One side's routes as the broker keeps them: valid in one generation of its tables, `routes` a plain
    dict for the hot loop."""

    __slots__ = ("_generation", "_limit", "_once", "routes")

    def __init__(self, limit: int = 8192) -> None:
        self.routes: dict[bytes, Any] = {}
        self._once: set[bytes] = set()
        self._generation = -1
        self._limit = limit

    def at(self, generation: int) -> dict[bytes, Any]:
        """The routes valid in this generation."""
        if generation != self._generation:
            self._generation = generation
            self.routes.clear()
            self._once.clear()
        return self.routes

    def offer(self, attributes: bytes, route: Any) -> None:
        """Keep the route if these attributes were offered before in this generation."""
        if attributes not in self._once:
            if len(self._once) >= self._limit:
                self._once.clear()
            self._once.add(attributes)
            return
        if len(self.routes) >= self._limit:
            self.routes.clear()
        self.routes[attributes] = route
