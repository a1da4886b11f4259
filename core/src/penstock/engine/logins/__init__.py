"""What a URL asks this process to do for its sessions and its workers': `?auth=...`, `?ssh=...`."""
