"""`grapevine.aio.connect`: the client for asyncio, with the names of the blocking one."""

from grapevine.client.aio import Client, connect
from grapevine.client.aio_reading import Advertisement, Subscription

__all__ = ["Advertisement", "Client", "Subscription", "connect"]
