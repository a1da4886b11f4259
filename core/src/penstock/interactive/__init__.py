"""What people call at a prompt or in a notebook: a copy as one call, and its result."""
