"""Questions to a session, and the locks it waits for."""
