"""The code that backends of SQL databases share. It names no database and imports no driver."""
