"""The checksum extension of tus: a chunk counts as a whole or not at all."""

import base64
import hashlib

import pytest

from support.ingest import PDF, a_pdf
from support.tus import Tus, document_of

pytestmark = pytest.mark.database


def sha(algorithm: str, data: bytes) -> str:
    return f"{algorithm} {base64.b64encode(hashlib.new(algorithm, data).digest()).decode()}"


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
async def test_a_chunk_with_a_wrong_checksum_is_460_and_dropped(tus: Tus, algorithm: str) -> None:
    content = a_pdf(3000)
    path = await tus.create(len(content))
    first = await tus.patch(path, 0, content[:1000], Upload_Checksum=sha(algorithm, content[:1000]))

    wrong = await tus.patch(path, 1000, b"x" * 2000, Upload_Checksum=sha(algorithm, content[1000:]))
    head = await tus.head(path)
    right = await tus.patch(path, 1000, content[1000:], Upload_Checksum=sha(algorithm, content[1000:]))

    assert (first.status, first.offset) == (204, 1000)
    assert (wrong.status, wrong.problem["type"]) == (460, "/problems/checksum-mismatch")
    assert head.offset == 1000
    assert (right.status, right.offset) == (204, 3000)
    assert (await document_of(tus, right.document_id))[2] == hashlib.sha256(content).hexdigest()


async def test_a_checksum_that_cannot_be_checked_is_400_and_nothing_is_taken(tus: Tus) -> None:
    path = await tus.create(1000)
    for value in ["md5 AAAA", "sha1", "sha1 !", "sha1 AAAA", "SHA1 2jmj7l5rSw0yVb/vlWAYkK/YBwk="]:
        answer = await tus.patch(path, 0, PDF, Upload_Checksum=value)

        assert (answer.status, answer.problem["header"]) == (400, "Upload-Checksum"), value
        assert (await tus.head(path)).offset == 0


async def test_a_dropped_chunk_leaves_no_bytes_below_those_of_the_json_face(tus: Tus) -> None:
    content = a_pdf(3000)
    path = await tus.create(len(content))
    await tus.ingest.put(tus.person, path.rpartition("/")[2], content[2000:], 2000)

    wrong = await tus.patch(path, 0, b"x" * 3000, Upload_Checksum=sha("sha1", content))
    right = await tus.patch(path, 0, content[:2000])

    assert wrong.status == 460
    assert (right.offset, right.document_id) == (2000, None)
