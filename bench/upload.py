"""How fast files go in and out of the platform, and what that takes, next to others in the same run.

    python bench/upload.py [MIB]

Starts the whole platform in a folder of its own (`nexarch up`). One JSON object per line, `{"bench": "upload",
"case": ...}`; MB are 10^6 bytes of plaintext, rates are the best of three rounds taken in turn. MIB is the size of the
large file, 1024 unless it is said.

- `receive`: by tus in 8 MiB PATCHes on one connection, with the digest announced. Floor: an aiohttp handler that writes
  what it gets to a file. `tus_server_mb_per_s` is @tus/server with @tus/file-store, from the same client.
- `complete_1gib`: the last PATCH of one byte, which makes the file a document: open, seal, put to the local driver,
  commit. Floor: two threads, one reads and hashes, the other encrypts with bare AES-256-GCM and writes, then fsync.
- `download`: the whole file. Floor: aiohttp's own handler that sends the file as it lies on the disk (sendfile).
- `range`: 1 MiB from the middle of the large file next to a file of 1 MiB; `ratio` of the medians of the times.
- `memory`: the most resident memory of dms-ingest in an upload of 64 MiB, in a large one, and in four at once of a
  quarter of it each.
- `loop_lag`: how long another request waits while the large file is received and completed.
"""

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's `queue`
sys.path.append(str(Path(__file__).parents[1]))

import hashlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from bench.upload_cases.clients import Connection, TusUpload
from bench.upload_cases.floors import bare_server, complete_bare, serve_floor, tus_server
from bench.upload_cases.stage import MIB, Lags, Stage, open_stage

ROUNDS = 3
RANGES = 40


@dataclass(frozen=True, slots=True)
class File:
    """What is uploaded: random bytes, and their digest."""

    content: memoryview
    sha256: str

    @classmethod
    def of(cls, content: memoryview) -> "File":
        return cls(content, hashlib.sha256(content).hexdigest())


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A document that was made, and the seconds that it took."""

    document_id: str
    receiving: float
    completing: float


def upload(stage: Stage, file: File) -> Uploaded:
    """Send all but the last byte, then the last one."""
    sending = stage.begin(stage.connect(), len(file.content), file.sha256)
    receiving = sending.send(file.content[:-1])
    begin = time.perf_counter()
    answer = sending.patch(file.content[-1:])
    return Uploaded(answer.headers["Nexarch-Document-Id"], receiving, time.perf_counter() - begin)


def remove(stage: Stage, document_id: str) -> None:
    connection = stage.connect()
    connection.call("DELETE", f"/v1/documents/{document_id}")
    connection.call("POST", f"/v1/documents/{document_id}/purge")


def seconds_of_fetching(connection: Connection, path: str, size: int, **headers: str) -> float:
    begin = time.perf_counter()
    assert connection.fetch(path, headers) == size
    return time.perf_counter() - begin


def content_path(document_id: str) -> str:
    return f"/v1/documents/{document_id}/content"


def rates(stage: Stage, large: File, folder: Path) -> None:
    """The cases `receive`, `complete_1gib` and `download`: ours, then the others, in each round."""
    size = len(large.content)
    ours: list[Uploaded] = []
    fetching: list[float] = []
    floors: dict[str, list[float]] = {"receive": [], "complete_1gib": [], "download": []}
    tus_sending: list[float] = []
    with bare_server(__file__, folder) as floor_url, tus_server(folder / "tus") as tus_url:
        for _ in range(ROUNDS):
            os.sync()  # what one has left for the disk to do would slow the next one down
            floors["receive"].append(TusUpload(Connection(floor_url), "/files/", size).send(large.content))
            os.sync()
            done = upload(stage, large)
            ours.append(done)
            os.sync()
            theirs = TusUpload(Connection(tus_url), "/files", size)
            tus_sending.append(theirs.send(large.content))
            theirs.end()
            os.sync()
            floors["complete_1gib"].append(complete_bare(folder / "floor", folder / "sealed"))
            fetching.append(seconds_of_fetching(stage.connect(), content_path(done.document_id), size))
            floors["download"].append(seconds_of_fetching(Connection(floor_url), "/files/floor", size))
            remove(stage, done.document_id)
    tus_rate = size / min(tus_sending) / 1e6
    compare("receive", size, [done.receiving for done in ours], floors["receive"], tus_server_mb_per_s=round(tus_rate))
    compare("complete_1gib", size, [done.completing for done in ours], floors["complete_1gib"])
    compare("download", size, fetching, floors["download"])


def ranges(stage: Stage, large: File, small: File) -> None:
    """The case `range`."""
    whole, part = upload(stage, small).document_id, upload(stage, large).document_id
    connection, start = stage.connect(), len(large.content) // 2 + 12_345
    wanted = f"bytes={start}-{start + MIB - 1}"
    times: dict[str, list[float]] = {"whole": [], "part": []}
    for _ in range(RANGES):
        times["whole"].append(seconds_of_fetching(connection, content_path(whole), MIB))
        times["part"].append(seconds_of_fetching(connection, content_path(part), MIB, Range=wanted))
    whole_ms, part_ms = (statistics.median(times[kind]) * 1000 for kind in ("whole", "part"))
    report("range", range_ms=round(part_ms, 1), file_ms=round(whole_ms, 1), ratio=round(part_ms / whole_ms, 2))
    remove(stage, whole)
    remove(stage, part)


def memory_and_lag(stage: Stage, large: File) -> None:
    """The cases `memory` and `loop_lag`."""
    quarter = len(large.content) // 4
    quarters = [File.of(large.content[n * quarter : (n + 1) * quarter - n]) for n in range(4)]
    with peak(stage) as small_peak:
        remove(stage, upload(stage, File.of(large.content[: 64 * MIB])).document_id)
    with peak(stage) as large_peak, Lags(stage.url) as lags:
        done = upload(stage, large)
    remove(stage, done.document_id)
    with peak(stage) as four_peak, ThreadPoolExecutor(4) as threads:
        four = list(threads.map(lambda file: upload(stage, file), quarters))
    for done in four:
        remove(stage, done.document_id)
    report(
        "memory",
        rss_mib_64=small_peak[0],
        rss_mib_1024=large_peak[0],
        rss_mib_four=four_peak[0],
        peak_mib=max(small_peak[0], large_peak[0], four_peak[0]),
    )
    report("loop_lag", p99_ms=round(sorted(lags.ms)[int(len(lags.ms) * 0.99)], 1), requests=len(lags.ms))


@contextmanager
def peak(stage: Stage) -> Iterator[list[float]]:
    """The most resident memory during the block, in MiB, once it has ended."""
    found: list[float] = []
    stage.forget_peak()
    yield found
    found.append(round(stage.peak_mib(), 1))


def compare(case: str, size: int, ours: list[float], floors: list[float], **figures: float) -> None:
    ours_rate, floor_rate = size / min(ours) / 1e6, size / min(floors) / 1e6
    rates = {"ours_mb_per_s": round(ours_rate), "floor_mb_per_s": round(floor_rate)}
    report(case, **rates, ratio=round(ours_rate / floor_rate, 3), **figures)


def report(case: str, **figures: float) -> None:
    print(json.dumps({"bench": "upload", "case": case} | figures), flush=True)


def main() -> None:
    size = int(sys.argv[1] if len(sys.argv) > 1 else "1024") * MIB
    large = File.of(memoryview(os.urandom(64 * MIB) * -(-size // (64 * MIB)))[:size])
    with tempfile.TemporaryDirectory() as folder, open_stage(Path(folder) / "home") as stage:
        remove(stage, upload(stage, File.of(large.content[:MIB])).document_id)  # what is only done once is done now
        memory_and_lag(stage, large)
        rates(stage, large, Path(folder))
        ranges(stage, large, File.of(large.content[:MIB]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--floor"]:
        serve_floor(Path(sys.argv[2]))
    else:
        main()
