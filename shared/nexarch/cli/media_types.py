"""The media type that a file is announced with, by the ending of its name; the same on every computer.

Python's own table lacks office documents, and the system's table, where there is one, differs from host to host.
"""

import mimetypes

_MORE = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".md": "text/markdown",
    ".log": "text/plain",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".webp": "image/webp",
}
_UNKNOWN = "application/octet-stream"  # the service looks at the bytes


def media_type(filename: str) -> str:
    """The type for a file of this name; `application/octet-stream` where the ending says nothing."""
    table = mimetypes.MimeTypes()  # Python's own types, without those of the system
    for ending, known in _MORE.items():
        table.add_type(known, ending)
    guessed, encoding = table.guess_type(filename)
    return guessed if guessed is not None and encoding is None else _UNKNOWN  # "a.txt.gz" is no text
