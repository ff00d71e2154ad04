"""Why a file has no text for us: one class per fact that its owner can act on.

An `Unreadable` is permanent: the same bytes fail again. Its sentence belongs to the class and its code is all
that crosses from the child process, so nothing that a hostile file says is ever shown to a person.
"""

from typing import ClassVar

from nexarch.errors import Invalid, Unavailable


class Unreadable(Invalid):
    """The file cannot be read, now or later; never raised itself."""

    sentence: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(self.sentence)


class PasswordRequired(Unreadable):
    """The file is encrypted and opens only with a password."""

    code = "password-required"
    title = "The file needs a password"
    sentence = "The file is protected by a password. Upload a copy without one to make its text searchable."


class DamagedFile(Unreadable):
    """The bytes are not a file of the type that they are said to be."""

    code = "damaged-file"
    title = "The file is damaged"
    sentence = "The file is damaged or incomplete. Check that it opens on your computer, then upload it again."


class UnsupportedKind(Unreadable):
    """No reader for this type of file."""

    code = "unsupported-type"
    title = "No text can be taken from this type of file"
    sentence = "Text can be taken from PDF, Word (.docx) and plain text files; this file is of another type."


class TimeLimitExceeded(Unreadable):
    """Reading the file took longer than it may, by the clock or in processor time."""

    code = "time-limit"
    title = "Reading the file took too long"
    sentence = "Reading the file took longer than allowed. A smaller or simpler file may work."


class MemoryLimitExceeded(Unreadable):
    """The reader wanted more memory than it may have."""

    code = "memory-limit"
    title = "Reading the file took too much memory"
    sentence = "Reading the file took more memory than allowed. A smaller or simpler file may work."


class UnpacksTooLarge(Unreadable):
    """What is packed inside the file is more than `Limits.unpacked_bytes`, 256 MiB by default."""

    code = "too-large"
    title = "The file unpacks to too much"
    sentence = "The contents of the file unpack to more than is allowed. Split the document and upload its parts."


class ParserCrashed(Unreadable):
    """The reader died of the file, or answered nonsense after reading it."""

    code = "parser-crashed"
    title = "The reader failed on this file"
    sentence = "The reader failed on this file. Saving it again with another program and uploading that may help."


class ExtractorUnavailable(Unavailable):
    """No child process could be started, or it never came as far as the file: our fault, worth a retry."""

    code = "extractor-unavailable"
    title = "The text extraction cannot run"


UNREADABLE: dict[str, type[Unreadable]] = {
    error.code: error
    for error in (
        PasswordRequired,
        DamagedFile,
        UnsupportedKind,
        TimeLimitExceeded,
        MemoryLimitExceeded,
        UnpacksTooLarge,
        ParserCrashed,
    )
}
