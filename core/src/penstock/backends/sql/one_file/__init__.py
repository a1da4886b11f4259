"""What backends share of databases that are files, which one process at a time writes."""
