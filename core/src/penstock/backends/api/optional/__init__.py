"""What a database may offer besides."""
