"""Routes by the bytes of a publication's attributes, for traffic that repeats itself.

The caller asks once per batch for the dict of its tables' generation and looks into it with a plain get.
Only attributes offered twice are kept, else content that never repeats would fill the cache with dead routes.
All is forgotten when the generation changes.
"""

from __future__ import annotations

from typing import Any


class RouteCache:
    """One side's routes, valid in one generation of its tables."""

    __slots__ = ("_generation", "_limit", "_once", "routes")

    def __init__(self, limit: int = 8192) -> None:
        self.routes: dict[Any, Any] = {}
        self._once: set[Any] = set()
        self._generation = -1
        self._limit = limit

    def at(self, generation: int) -> dict[Any, Any]:
        """The routes valid in this generation."""
        if generation != self._generation:
            self._generation = generation
            self.routes.clear()
            self._once.clear()
        return self.routes

    def offer(self, attributes: object, route: Any) -> None:
        """Keep the route if these attributes were offered before in this generation."""
        if attributes not in self._once:
            if len(self._once) >= self._limit:
                self._once.clear()
            self._once.add(attributes)
            return
        if len(self.routes) >= self._limit:
            self.routes.clear()
        self.routes[attributes] = route
