"""Questions to a session, and the locks that it waits for."""
