"""Every size that a stranger could otherwise choose. A frame beyond one of them is a WireError."""

from __future__ import annotations

FRAME_BYTES = 16 * 1024 * 1024
BATCH_PUBLICATIONS = 65_536
ATTRIBUTE_BYTES = 16 * 1024
PAYLOAD_BYTES = 8 * 1024 * 1024
EXTENSION_BYTES = 4 * 1024
NAME_BYTES = 255
PATH_BROKERS = 64  # a subscription's path: the last Delta brokers
ROOT_PATH_BROKERS = 256  # depth of a tree
HOPS = 255  # a publication that went further is in a loop and is dropped
CUTS = 4_096
NEARBY_BROKERS = 4_096  # of a Delta-neighbourhood
RING_NODES = 4_096  # of a list of successors, of a topic's members
LIST_ENTRIES = 65_536  # censuses, names, addresses
SUBSCRIPTION_IDS = 1_000_000  # of one client that match one publication
TEXT_BYTES = 64 * 1024
ADDRESSES = 256  # in one message
SETTINGS = 256  # entries of HELLO's settings and of a command's arguments
STAGED_PARTS = 65_536  # partitions of one batch
BATCH_NUMBER = 2**31 - 2  # a row's sequence number is batch + 1 above 32 bits of row, and a Count
SECONDS = 1e12  # times and durations
EDGES = 4_096  # brokers in one message
MISSING = 1_024  # brokers that one broker misses
ACCEPTED = 16_384  # publishers in one Accepted: of the others nobody knows how far they had come
KEPT_PUBLISHERS = 16_384  # publishers in one message about copies, filters of one of them
