"""One moment of a server, shared by many sessions."""
