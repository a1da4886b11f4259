"""One moment of a server, which many sessions see."""
