"""Records of runs, whatever keeps them."""
