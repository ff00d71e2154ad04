"""HTTP in and out: one module for each field."""
