"""Protocols that a backend may implement, but need not."""
