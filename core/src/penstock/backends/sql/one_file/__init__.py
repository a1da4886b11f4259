"""What backends share for databases that are files, written by one process at a time."""
