"""What a copy costs: see README.md."""
