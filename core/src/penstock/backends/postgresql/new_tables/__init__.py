"""Tables that the target makes."""
