"""What a URL asks this process to fetch for its sessions and its workers': `?auth=...`."""
