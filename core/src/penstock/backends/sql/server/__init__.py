"""What databases that are servers have alike: sessions over a network, and locks by name."""
