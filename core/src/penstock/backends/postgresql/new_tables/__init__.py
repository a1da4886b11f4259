"""Tables that Penstock creates in the target."""
