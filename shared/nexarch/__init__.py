"""What at least two NEXARCH services share."""
