"""Records of runs, wherever they are kept."""
