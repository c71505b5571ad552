"""The city of the channels' demo: where brokers, shelters and people are, who reports what, who asks what.

Points are those of the ONE simulator's map of Helsinki if the data is there, else a cloud that is denser in
the middle. People walk from point to point; everything is drawn from a seed.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from grapevine.filters.geo import distance_km
from tools.reproduce.bad_prototype import FILE, cloud, read_map

CENTRE = (60.17, 24.94)
NORTH_M, EAST_M = 111_320.0, 55_400.0  # of a degree, there
TYPES = ("fire", "flood", "accident", "storm")
SNAP, NEAR_KM, ME_KM = 0.01, 2.0, 1.5
WALK_M_S = 30.0  # faster than one walks: a demo is short
BROKERS = {
    "centre": (60.170, 24.940),
    "espoo": (60.176, 24.905),
    "vantaa": (60.190, 24.935),
    "east": (60.178, 24.985),
    "harbour": (60.155, 24.955),
}

CHANNELS = f'''# Emergencies in Helsinki: `pubctl channel create emergencies.toml`
[dataset.EmergencyReports]
filter = "class = 'report'"
columns = "id bigint, type string, lat double, lon double, text string"
[dataset.UserLocations]
filter = "class = 'location'"
columns = "user string, lat double, lon double"
key = ["user"]
[dataset.Shelters]
file = "shelters.csv"

[channel.EmergenciesNear]
period = "2s"
new = "EmergencyReports"
parameters.type = "string"
parameters.lat = {{ type = "double", snap = {SNAP} }}
parameters.lon = {{ type = "double", snap = {SNAP} }}
parameters.km = {{ type = "double", default = {NEAR_KM}, min = 0, max = 50 }}
sql = """SELECT r.id, r.type, r.lat, r.lon, r.text, nearest(Shelters, r.lat, r.lon, 2) AS shelters
         FROM EmergencyReports r WHERE r.type = :type AND near(r.lat, r.lon, :lat, :lon, :km)"""

[channel.EmergenciesNearMe]
period = "2s"
new = "EmergencyReports"
parameters.user = "string"
sql = """SELECT r.id, r.type, r.lat, r.lon FROM EmergencyReports r
         JOIN UserLocations u ON near(r.lat, r.lon, u.lat, u.lon, {ME_KM}) WHERE u.user = :user"""
'''


class Report(NamedTuple):
    id: int
    type: str
    lat: float
    lon: float


class City:
    def __init__(self, seed: int, people: int, data: Path | None) -> None:
        self.chance = Random(seed)
        real = data is not None and (data / FILE).is_file()
        points = read_map(data) if real and data is not None else cloud()
        middle = np.median(points, axis=0).tolist()
        self.real = real
        self.points = [
            (CENTRE[0] + (y - middle[1]) / NORTH_M, CENTRE[1] + (x - middle[0]) / EAST_M)
            for x, y in points.tolist()
        ]
        self.shelters = {f"shelter {n}": self.somewhere() for n in range(1, 41)}
        self.people = [Person(f"user {n}", self) for n in range(1, people + 1)]

    def somewhere(self) -> tuple[float, float]:
        return self.chance.choice(self.points)

    def report(self, number: int) -> Report:
        return Report(number, self.chance.choice(TYPES), *self.somewhere())

    def shelters_file(self) -> str:
        rows = (f"{name},{lat:.6f},{lon:.6f}\n" for name, (lat, lon) in self.shelters.items())
        return "name,lat,lon\n" + "".join(rows)


class Person:
    """Asks about one kind of emergency around home, and every second one about all around itself."""

    def __init__(self, name: str, city: City) -> None:
        self.name = name
        self.home = self.at = city.somewhere()
        self.to = city.somewhere()
        self.type = city.chance.choice(TYPES)
        self.walks = int(name.split()[1]) % 2 == 0
        self._city = city

    def walk(self, seconds: float) -> None:
        north, east = (self.to[0] - self.at[0]) * NORTH_M, (self.to[1] - self.at[1]) * EAST_M
        far, step = float(np.hypot(north, east)), WALK_M_S * seconds
        if far <= step:
            self.at, self.to = self.to, self._city.somewhere()
        else:
            self.at = (
                self.at[0] + north / far * step / NORTH_M,
                self.at[1] + east / far * step / EAST_M,
            )

    def wants(self, report: Report, lat: float, lon: float) -> bool:
        """Whether a report is due, with the place as the channel took it."""
        return report.type == self.type and distance_km(report.lat, report.lon, lat, lon) <= NEAR_KM
