"""What an execution needs of a target: attempts, records, the control store."""
