"""What a session is asked, and what it waits for."""
