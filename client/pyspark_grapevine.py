"""Spark looks for modules by this prefix and takes their DefaultSource: so `format("grapevine")` is known to
every session of a Python that has grapevine-pubsub, without a word from its user."""

from grapevine.spark.source import GrapevineDataSource as DefaultSource

__all__ = ["DefaultSource"]
