"""A copy between two real servers, with two failures in it: `make demo`."""
