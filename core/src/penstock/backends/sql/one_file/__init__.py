"""The code that backends share for databases that are files with one writer at a time."""
