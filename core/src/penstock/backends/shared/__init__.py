"""What backends call."""
