"""Feeding by writers whose work may be done again: staged rows, numbers that outlive a restart."""
