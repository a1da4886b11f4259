"""The options of a copy in groups, with what follows from them."""
