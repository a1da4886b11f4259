"""Snapshots of a server, shared by many sessions."""
