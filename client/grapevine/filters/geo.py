"""Positions on a sphere: the exact distance, and the ranges of latitude and longitude around a circle.

Degrees and kilometres throughout. A position has a latitude in [-90, 90] and a longitude in
[-180, 180]; other numbers are no position, and neither inside nor outside of a circle.
"""

from __future__ import annotations

import math
from typing import TypeAlias

EARTH_RADIUS_KM = 6371.0088  # the mean radius of IUGG

# Ranges around a circle are rounded outwards to this, far above what sines and roots lose: whatever
# the distance takes as inside lies inside the ranges.
GRID_DEGREES = 1e-6

Span: TypeAlias = tuple[float, float]


def is_position(latitude: float, longitude: float) -> bool:
    return -90 <= latitude <= 90 and -180 <= longitude <= 180


def distance_km(latitude_a: float, longitude_a: float, latitude_b: float, longitude_b: float) -> float:
    """Great-circle distance by the haversine formula."""
    phi_a, phi_b = math.radians(latitude_a), math.radians(latitude_b)
    half_phi = (phi_b - phi_a) / 2
    half_lambda = math.radians(longitude_b - longitude_a) / 2
    h = math.sin(half_phi) ** 2 + math.cos(phi_a) * math.cos(phi_b) * math.sin(half_lambda) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, h)))


def longitude_spans(west: float, east: float) -> list[Span]:
    """Two spans where the way east crosses the antimeridian."""
    return [(west, east)] if west <= east else [(west, 180), (-180, east)]


def circle_spans(latitude: float, longitude: float, km: float) -> tuple[Span, list[Span]]:
    """The span of latitude and the one or two of longitude that hold the circle."""
    angle = min(km / EARTH_RADIUS_KM, math.pi) + 1e-9  # nothing is farther than the other side
    south = latitude - math.degrees(angle)
    north = latitude + math.degrees(angle)
    latitudes = (max(-90.0, _down(south)), min(90.0, _up(north)))
    # A circle that reaches a pole, or so near that the arc below is badly conditioned, has every longitude.
    if south <= -89.999 or north >= 89.999:
        return latitudes, [(-180, 180)]
    half = math.degrees(math.asin(min(1.0, math.sin(angle) / math.cos(math.radians(latitude)))))
    west, east = _down(longitude - half), _up(longitude + half)
    return latitudes, longitude_spans(
        round(west + 360, 6) if west < -180 else west, round(east - 360, 6) if east > 180 else east
    )


def _down(degrees: float) -> float:
    return round(math.floor(degrees / GRID_DEGREES - 1) * GRID_DEGREES, 6)


def _up(degrees: float) -> float:
    return round(math.ceil(degrees / GRID_DEGREES + 1) * GRID_DEGREES, 6)
