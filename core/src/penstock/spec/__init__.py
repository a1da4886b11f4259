"""The user's request, and the specification that a worker receives."""
