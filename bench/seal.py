"""How fast objects are sealed and opened, next to a bare loop over AES-256-GCM in the same run.

    python bench/seal.py [MIB]

One JSON object per line: `{"bench": "seal", "case": "seal" | "open", "chunk_bytes", "ours_mb_per_s",
"floor_mb_per_s", "ratio"}`. MB are 10^6 bytes of plaintext. The floor encrypts (decrypts) one 256 KiB buffer
into another again and again: no header, no stream, one nonce. Both are the best of five rounds, taken in turn.
"""

import sys

sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's `queue`

import json
import os
import time
from collections.abc import Callable
from functools import partial

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from nexarch.crypto.envelope import new_dek
from nexarch.crypto.layout import NXO1
from nexarch.crypto.segments import Opener, Sealer

MIB = 1 << 20
FLOOR_BLOCK = 256 << 10
ROUNDS = 5
AAD = b"bench"


def floor_seal(size: int) -> None:
    cipher, nonce = AESGCM(new_dek()), os.urandom(12)
    block, out = bytes(FLOOR_BLOCK), bytearray(FLOOR_BLOCK + 16)
    for _ in range(size // FLOOR_BLOCK):
        cipher.encrypt_into(nonce, block, AAD, out)


def floor_open(size: int) -> None:
    cipher, nonce = AESGCM(new_dek()), os.urandom(12)
    block, out = cipher.encrypt(nonce, bytes(FLOOR_BLOCK), AAD), bytearray(FLOOR_BLOCK)
    for _ in range(size // FLOOR_BLOCK):
        cipher.decrypt_into(nonce, block, AAD, out)


def seal(size: int, chunk_size: int) -> None:
    sealer = Sealer(new_dek(), AAD)
    chunk, out = bytes(chunk_size), bytearray(sealer.bound(chunk_size))
    for _ in range(size // chunk_size):
        sealer.update_into(chunk, out)
    sealer.finish_into(out)


def prepare_open(size: int, chunk_size: int) -> Callable[[], None]:
    key = new_dek()
    sealer = Sealer(key, AAD)
    stored = memoryview(sealer.update(bytes(size)) + sealer.finish())

    def run() -> None:
        opener = Opener(key, AAD, stored_size=len(stored), plaintext_size=size)
        out = bytearray(opener.bound(chunk_size))
        for start in range(0, len(stored), chunk_size):
            opener.update_into(stored[start : start + chunk_size], out)
        opener.finish()

    return run


def compare(case: str, size: int, chunk_size: int, ours: Callable[[], None], floor: Callable[[], None]) -> None:
    best = {ours: float("inf"), floor: float("inf")}
    for _ in range(ROUNDS):
        for run in (floor, ours):
            begin = time.perf_counter()
            run()
            best[run] = min(best[run], time.perf_counter() - begin)
    rates = {run: size / seconds / 1e6 for run, seconds in best.items()}
    line = {
        "bench": "seal",
        "case": case,
        "chunk_bytes": chunk_size,
        "ours_mb_per_s": round(rates[ours]),
        "floor_mb_per_s": round(rates[floor]),
        "ratio": round(rates[ours] / rates[floor], 3),
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    size = int(sys.argv[1] if len(sys.argv) > 1 else "256") * MIB
    for chunk_size in (64 << 10, MIB, 8 * MIB):
        compare("seal", size, chunk_size, partial(seal, size, chunk_size), partial(floor_seal, size))
        compare("open", size, chunk_size, prepare_open(size, chunk_size), partial(floor_open, size))


if __name__ == "__main__":
    assert NXO1.segment_length == FLOOR_BLOCK
    main()
