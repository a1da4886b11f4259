"""Code that several backends call."""
