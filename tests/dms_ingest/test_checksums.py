"""A chunk is what its sender says, or it is refused."""

import hashlib

import pytest

from dms_ingest.checksums import ALGORITHMS, Checksum, ChecksumMismatch


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_chunk_in_pieces_is_compared_whole(algorithm: str) -> None:
    checksum = Checksum(algorithm, hashlib.new(algorithm, b"hello world").digest())
    checksum.update(b"hello ")
    with pytest.raises(ChecksumMismatch):
        checksum.verify()

    checksum.update(memoryview(b"world"))

    checksum.verify()
