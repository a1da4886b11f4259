"""Values as texts that every reader understands."""
