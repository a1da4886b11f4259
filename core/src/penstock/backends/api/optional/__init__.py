"""Protocols that a backend may implement, and need not."""
