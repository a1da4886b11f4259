"""What a person asks for, and what a worker needs to know."""
