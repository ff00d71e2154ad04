"""The pieces that a stream of unknown length is sent in, and how long each is.

Amazon's limits: 10,000 parts, each but the last at least 5 MiB and at most 5 GiB, an object at most 5 TiB
(docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html). The length is not known before the end, so parts begin
small and grow: a part twice as long for each thousand before it reaches 7.8 TiB with the 10,000th.
"""

import hashlib
import tempfile
from base64 import b64encode
from io import BytesIO
from typing import BinaryIO

from nexarch.storage.contract import Chunk

FIRST_PART = 8 << 20
MOST_PARTS = 10_000
_GROWS_AFTER = 1000
# A longer part waits in an unnamed file, so that memory stays the same: those beyond the 2,000th, 23 GiB.
_MOST_IN_MEMORY = 16 << 20


def part_length(number: int) -> int:
    """The length in bytes of the part with this number, counted from 1; the last one of an object may be shorter."""
    return FIRST_PART << ((number - 1) // _GROWS_AFTER)


class Part:
    """One piece, kept until the server has it, since it may have to be sent again."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.body: BinaryIO = BytesIO()
        self.size = 0
        self._length = part_length(number)
        self._digest = hashlib.sha256()

    @property
    def is_full(self) -> bool:
        """Whether it takes no more bytes."""
        return self.size == self._length

    @property
    def sha256(self) -> str:
        """The digest of its bytes, in base64 as S3 has it."""
        return b64encode(self._digest.digest()).decode()

    def write(self, data: Chunk) -> int:
        """Take as many of these bytes as there is room for; return how many. Blocks: call it in a thread."""
        taken = memoryview(data)[: self._length - self.size]
        if not self.size and self._length > _MOST_IN_MEMORY:
            self.body = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self.body.write(taken)
        self._digest.update(taken)
        self.size += len(taken)
        return len(taken)

    def rewind(self) -> BinaryIO:
        """Return the body from its beginning, to be sent."""
        self.body.seek(0)
        return self.body

    def close(self) -> None:
        """Give its memory or file back."""
        self.body.close()
