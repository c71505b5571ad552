"""Parameterised channels at the back end and at the brokers (BAD 3)."""
