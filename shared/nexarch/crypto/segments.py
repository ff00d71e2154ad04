"""Sealing and opening objects as streams: any chunk size in, constant memory, no I/O.

Both classes write into a buffer of the caller's (`update_into`), so that the caller decides who owns which
bytes for how long; one buffer of `bound(chunk size)` bytes serves a whole object. One object, one instance,
one thread at a time; the work on a segment leaves the GIL free, so put the calls into a thread.

    sealer = Sealer(dek, object_aad(tenant_id, document_id, revision_id))
    buffer = memoryview(bytearray(sealer.bound(CHUNK)))
    for chunk in chunks:
        sink.write(buffer[: sealer.update_into(chunk, buffer)])
    sink.write(buffer[: sealer.finish_into(buffer)])
"""

import os
from collections.abc import Callable

from nexarch.crypto.floe import Message
from nexarch.crypto.layout import IV_LENGTH, NONCE_LENGTH, NXO1, SEGMENT_OVERHEAD, Format, ObjectDamaged

Readable = bytes | bytearray | memoryview
Writable = bytearray | memoryview


class Sealer:
    """Turns a plaintext into an object: everything that the calls return, one after the other.

    `key` is a fresh 32-byte key that seals nothing else. `random` is os.urandom but for known answers, which
    come with their IV and nonces.
    """

    def __init__(
        self, key: bytes, aad: bytes, *, form: Format = NXO1, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._full = form.segment_plaintext
        self._segment_length = form.segment_length
        self._header_length = form.header_length
        self._random = random
        self._message = Message(form, key, random(IV_LENGTH), aad)
        self._header = self._message.header
        self._number = 0
        self._pending = memoryview(bytearray(self._full))
        self._held = 0  # bytes in _pending
        self._finished = False

    def bound(self, size: int) -> int:
        """Return the most bytes that one call with at most `size` bytes writes, whatever came before."""
        return self._header_length + (1 + size // self._full) * self._segment_length

    def update_into(self, data: Readable, out: Writable) -> int:
        """Seal some more plaintext into `out` and return how many bytes were written, perhaps none.

        `out` has at least `bound(len(data))` bytes and does not overlap `data`. Raises ObjectTooLarge.
        """
        source = memoryview(data).cast("B")
        sink = self._checked(out, len(source))
        written = self._take_header(sink)
        full, size = self._full, len(source)
        # A full segment is held until one more byte shows that it is not the last.
        position = min(full - self._held, size) if self._held else 0
        self._hold(source[:position])
        if self._held and position < size:
            written += self._seal(self._pending, sink[written:], last=False)
            self._held = 0
        while size - position > full:
            written += self._seal(source[position : position + full], sink[written:], last=False)
            position += full
        self._hold(source[position:])
        return written

    def finish_into(self, out: Writable) -> int:
        """Write the last segment to `out`, at least `bound(0)` bytes, and return how many bytes it took."""
        sink = self._checked(out, 0)
        written = self._take_header(sink)
        self._finished = True
        return written + self._seal(self._pending[: self._held], sink[written:], last=True)

    def update(self, data: Readable) -> bytes:
        """Seal some more plaintext into new bytes; for where memory and speed do not matter."""
        out = bytearray(self.bound(len(data)))
        return bytes(out[: self.update_into(data, out)])

    def finish(self) -> bytes:
        """Return the last segment as new bytes."""
        out = bytearray(self.bound(0))
        return bytes(out[: self.finish_into(out)])

    def _checked(self, out: Writable, size: int) -> memoryview:
        if self._finished:
            raise ValueError("This object is finished.")
        sink = memoryview(out).cast("B")
        if len(sink) < self.bound(size):
            raise ValueError(f"The buffer needs {self.bound(size)} bytes.")
        return sink

    def _take_header(self, sink: memoryview) -> int:
        header, self._header = self._header, b""
        sink[: len(header)] = header
        return len(header)

    def _hold(self, data: memoryview) -> None:
        self._pending[self._held : self._held + len(data)] = data
        self._held += len(data)

    def _seal(self, plaintext: memoryview, sink: memoryview, *, last: bool) -> int:
        nonce = self._random(NONCE_LENGTH)
        length = self._message.seal_segment(self._number, plaintext, nonce, sink, last=last)
        self._number += 1
        return length


class Opener:
    """Turns an object, or the segments that hold a range of it, back into plaintext.

    Feed the first `form.header_length` bytes of the object, then those of `span`, in chunks of any size; a
    whole object needs no seeking between them. Only authenticated plaintext comes out; after `finish`
    returned, all of the range has. Everything wrong is ObjectDamaged, and after one nothing more is opened.

    `stored_size` is the object's size as the store tells it, `plaintext_size` the size as the row tells it
    (None only where no row exists): an object cut at the end of a segment would else go unseen by a range.
    `start` and `stop` are bytes of plaintext, ValueError outside of it.
    """

    def __init__(
        self,
        key: bytes,
        aad: bytes,
        *,
        stored_size: int,
        plaintext_size: int | None,
        start: int = 0,
        stop: int | None = None,
        form: Format = NXO1,
    ) -> None:
        held_size = form.plaintext_size(stored_size)
        # FLOE allows an empty last segment after full ones; a Sealer never writes that, so it is not ours.
        ours = plaintext_size == held_size and form.object_size(held_size) == stored_size
        if plaintext_size is not None and not ours:
            raise ObjectDamaged(f"The object has {stored_size} bytes, which is not {plaintext_size} bytes sealed.")
        self._start = start
        self._stop = held_size if stop is None else stop
        self.span = form.locate(stored_size, self._start, self._stop)
        self._form = form
        self._key = key
        self._aad = aad
        self._last = form.segment_count(stored_size) - 1
        self._last_length = stored_size - form.header_length - self._last * form.segment_length
        self._message: Message | None = None
        self._number = self.span.segments.start
        self._pending = memoryview(bytearray(max(form.segment_length, form.header_length)))
        self._held = 0  # bytes in _pending
        self._scratch = memoryview(bytearray(form.segment_plaintext))
        self._refused = False

    def bound(self, size: int) -> int:
        """Return the most bytes that one call with at most `size` bytes writes, whatever came before."""
        return self._form.segment_length + size

    def update_into(self, data: Readable, out: Writable) -> int:
        """Open some more of the object into `out` and return how many bytes were written, perhaps none.

        `out` has at least `bound(len(data))` bytes and does not overlap `data`; after ObjectDamaged its
        content is undefined and must not be used.
        """
        source = memoryview(data).cast("B")
        sink = memoryview(out).cast("B")
        if len(sink) < self.bound(len(source)):
            raise ValueError(f"The buffer needs {self.bound(len(source))} bytes.")
        self._refuse_after_damage()
        self._refused = True  # until all of this chunk was good
        written = 0
        while len(source):
            length = self._awaited_length()
            if not self._held and len(source) >= length:
                piece, source = source[:length], source[length:]
            else:
                taken = min(length - self._held, len(source))
                self._pending[self._held : self._held + taken] = source[:taken]
                self._held += taken
                source = source[taken:]
                if self._held < length:
                    break
                piece = self._pending[:length]
                self._held = 0
            if self._message is None:
                self._message = Message.from_header(self._form, self._key, piece.tobytes(), self._aad)
            else:
                written += self._open(self._message, piece, sink[written:])
        self._refused = False
        return written

    def finish(self) -> None:
        """Raise ObjectDamaged unless every byte of the range was fed and was good."""
        self._refuse_after_damage()
        if self._message is None or self._number != self.span.segments.stop:
            raise ObjectDamaged(f"The object ends before the end of segment {self.span.segments[-1]}.")

    def update(self, data: Readable) -> bytes:
        """Open some more of the object into new bytes; for where memory and speed do not matter."""
        out = bytearray(self.bound(len(data)))
        return bytes(out[: self.update_into(data, out)])

    def _refuse_after_damage(self) -> None:
        if self._refused:
            raise ObjectDamaged("The object was found damaged before.")

    def _awaited_length(self) -> int:
        """Return the length of the header or segment that comes next; raise ObjectDamaged after the end."""
        if self._message is None:
            return self._form.header_length
        if self._number == self.span.segments.stop:
            raise ObjectDamaged(f"More bytes follow after segment {self.span.segments[-1]} of the object.")
        return self._last_length if self._number == self._last else self._form.segment_length

    def _open(self, message: Message, segment: memoryview, sink: memoryview) -> int:
        length = len(segment) - SEGMENT_OVERHEAD
        offset = self._number * self._form.segment_plaintext
        begin = max(self._start - offset, 0)
        end = min(self._stop - offset, length)
        whole = begin == 0 and end == length
        # Only the first and the last segment of a range are wanted in part: they take the way over _scratch.
        target = (sink if whole else self._scratch)[:length]
        message.open_segment(self._number, segment, target, last=self._number == self._last)
        if not whole:
            sink[: end - begin] = self._scratch[begin:end]
        self._number += 1
        return end - begin
