"""Loads: their plans, their transactions, and the tables that they load."""
