"""`grapevine.aio.connect`: the client for asyncio, with the names of the blocking one."""

from grapevine.client.aio import Advertisement, Client, Subscription, connect

__all__ = ["Advertisement", "Client", "Subscription", "connect"]
