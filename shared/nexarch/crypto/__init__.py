"""Cryptography: the encrypted object format, and keys wrapped under other keys."""
