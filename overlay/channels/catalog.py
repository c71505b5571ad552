"""What the back end knows of datasets and channels: created, replaced, dropped; each change says why not.

A channel that is replaced has the next version: its back-end subscriptions have other ids, and its results
begin anew. Names are one space: in a query they are all tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

from grapevine.errors import ChannelError
from grapevine.wire.catalog import CONTINUOUS, Channel, Dataset
from grapevine.wire.parameters import Parameter, mistakes

DATASETS_MAX = 256
CHANNELS_MAX = 1_024
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
PERIOD_MIN_S = 1.0
TIME_MAX_S = 11 * 366 * 86_400.0


class Catalog(msgspec.Struct):
    datasets: dict[str, Dataset] = msgspec.field(default_factory=dict)
    channels: dict[str, Channel] = msgspec.field(default_factory=dict)
    versions: dict[str, int] = msgspec.field(default_factory=dict)  # of dropped channels too
    generation: int = 0
    # By channel and earlier version: what a subscriber that goes on gave was taken by these.
    declared: dict[str, dict[int, tuple[Parameter, ...]]] = msgspec.field(default_factory=dict)

    def create(
        self, datasets: Iterable[Dataset], channels: Iterable[Channel], replace: bool = False
    ) -> list[str]:
        """What is new or other now; all of it or nothing."""
        datasets, channels = list(datasets), list(channels)
        definitions: list[Dataset | Channel] = [*datasets, *channels]
        for each in definitions:
            _check(each)
        for dataset in datasets:
            known = self.datasets.get(dataset.name)
            if known is not None and not known.same_as(dataset) and not replace:
                raise ChannelError(f"dataset {dataset.name} is there and differs: --replace, or another name")
            if known is not None and known.columns != dataset.columns:
                raise ChannelError(f"dataset {dataset.name} has rows of other columns: drop it first")
            if dataset.name in self.channels:
                raise ChannelError(f"{dataset.name} is a channel")
        for channel in channels:
            other = self.channels.get(channel.name)
            if other is not None and not other.same_as(channel) and not replace:
                raise ChannelError(
                    f"channel {channel.name} is there and differs: --replace makes a new version"
                )
            if channel.name in self.datasets:
                raise ChannelError(f"{channel.name} is a dataset")
        if len(self.datasets) + len(datasets) > DATASETS_MAX:
            raise ChannelError(f"there are {DATASETS_MAX} datasets at most")
        if len(self.channels) + len(channels) > CHANNELS_MAX:
            raise ChannelError(f"there are {CHANNELS_MAX} channels at most")
        return self._put(datasets, channels)

    def _put(self, datasets: list[Dataset], channels: list[Channel]) -> list[str]:
        changed = []
        for dataset in datasets:
            there = self.datasets.get(dataset.name)
            if there is None or not there.same_as(dataset):
                since = self.generation + 1 if there is None else there.since
                self.datasets[dataset.name] = msgspec.structs.replace(dataset, since=since)
                changed.append(dataset.name)
        for channel in channels:
            known = self.channels.get(channel.name)
            if known is None or not known.same_as(channel):
                version = self.versions[channel.name] = self.versions.get(channel.name, 0) + 1
                if known is not None:
                    self.declared.setdefault(channel.name, {})[known.version] = known.parameters
                self.channels[channel.name] = msgspec.structs.replace(channel, version=version)
                changed.append(channel.name)
        self.generation += bool(changed)
        return changed

    def drop_channel(self, name: str) -> Channel:
        channel = self.channel(name)
        del self.channels[name]
        self.declared.pop(name, None)
        self.generation += 1
        return channel

    def drop_dataset(self, name: str) -> Dataset:
        if name not in self.datasets:
            raise ChannelError(f"no dataset {name}{_meant(name, self.datasets)}")
        users = [channel.name for channel in self.channels.values() if mentions(channel, name)]
        if users:
            raise ChannelError(f"dataset {name} is used by {', '.join(sorted(users))}: drop these first")
        self.generation += 1
        return self.datasets.pop(name)

    def channel(self, name: str) -> Channel:
        if name not in self.channels:
            raise ChannelError(f"no channel {name}{_meant(name, self.channels)}")
        return self.channels[name]


def _check(each: Dataset | Channel) -> None:
    """Whatever wrote the definitions: names become files and tables, times become timers."""
    if not NAME.fullmatch(each.name):
        raise ChannelError(f"{each.name[:64]!r} is no name: a letter, then letters, digits and _, at most 64")
    if not 0 < each.keep_s <= TIME_MAX_S:
        raise ChannelError(f"{each.name} would be kept for {each.keep_s:g} s")
    if isinstance(each, Channel):
        if not (each.period_s == CONTINUOUS or PERIOD_MIN_S <= each.period_s <= TIME_MAX_S):
            raise ChannelError(f"channel {each.name} has a period of {each.period_s:g} s: 1 s at least")
        if wrong := [text for parameter in each.parameters for text in mistakes(parameter)]:
            raise ChannelError(f"channel {each.name}: {wrong[0]}")


def mentions(channel: Channel, dataset: str) -> bool:
    """Whether its query may read the dataset: by words, which errs on the side of yes."""
    words = "".join(c if c.isalnum() or c == "_" else " " for c in channel.sql).split()
    return dataset in channel.new or dataset in words or f"{dataset}_all" in words


def _meant(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
