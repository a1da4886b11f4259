"""Logins and tunnels that this process provides to all sessions: `?auth=...`, `?ssh=...`."""
