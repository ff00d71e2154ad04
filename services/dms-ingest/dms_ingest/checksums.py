"""The checksum that a client sends with a chunk (tus 1.0, extension checksum): of that chunk, not of the file."""

import hashlib

from nexarch.errors import Invalid

ALGORITHMS = ("sha1", "sha256")


class ChecksumMismatch(Invalid):
    """The chunk that came has another checksum than its sender said, so it was dropped; send it again."""

    code = "checksum-mismatch"
    status = 460  # the protocol's own number
    title = "The chunk has another checksum"


class Checksum:
    """Digests a chunk as it comes and compares at its end. `algorithm` is one of ALGORITHMS."""

    def __init__(self, algorithm: str, expected: bytes) -> None:
        self._expected = expected
        self._digest = hashlib.new(algorithm, usedforsecurity=False)

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes of the chunk."""
        self._digest.update(data)

    def verify(self) -> None:
        """Raise ChecksumMismatch unless the bytes taken are those that were meant."""
        if self._digest.digest() != self._expected:
            raise ChecksumMismatch("The chunk was damaged on its way and dropped; send it again.")
