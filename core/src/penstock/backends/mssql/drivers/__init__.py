"""Drivers, chosen by a URL's scheme."""
