"""What backends of databases that speak SQL share. It names no database and imports no driver."""
