"""Loads: their plans, their transactions, and the tables they load."""
