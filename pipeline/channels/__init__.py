"""Channels at the data cluster: their files, one statement for all parameter sets, the driver."""
