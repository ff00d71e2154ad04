"""The text of a file from outside, taken in a child process that can be killed.

`runner.extract_text` is the way in and `errors` what it raises. This page imports nothing: the child starts
with it for every file, and what it does not load it does not wait for.
"""
