"""Runs the jobs of all tenants."""
