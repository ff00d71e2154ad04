"""Threshold rules on aggregated metrics, notifications with retries."""
