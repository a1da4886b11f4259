"""Components that copy tables, defined in `defs.yaml` or by a file of many tables next to it."""
