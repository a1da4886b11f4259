"""Drivers, of which a URL's scheme chooses one."""
