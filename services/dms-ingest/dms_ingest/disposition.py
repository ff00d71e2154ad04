"""What a browser may do with a download: its name, and whether it is shown or saved."""

import re
import unicodedata
from typing import Literal
from urllib.parse import quote

Disposition = Literal["attachment", "inline"]

# In a quoted-string anything but these; % too, because some browsers decode it there (RFC 6266, appendix D).
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9!#$&'()+,.;=@\[\]^_`{}~ -]")
# Invisible and right-to-left marks: "invoice<U+202E>fdp.exe" shows as "invoiceexe.pdf".
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # invisible, but emoji of several parts, Persian and Indic scripts are written with them
_ATTR_CHAR = "!#$&+-.^_`|~"  # RFC 8187; letters and digits are never quoted
_MAX_LENGTH = 255  # characters, as stored; what the disk at the other end takes is known there

# Shown in a browser only where nothing in it can run.
_SHOWN = frozenset({"application/pdf", "image/gif", "image/jpeg", "image/png", "image/webp", "text/plain"})


def content_disposition(disposition: Disposition, name: str, media_type: str) -> str:
    """The header for a file of any name: an ASCII form for old clients, and the whole name in UTF-8.

    RFC 6266 and 8187. `inline` is granted only for types that cannot run anything. The result is printable ASCII,
    whatever the name holds.
    """
    granted = disposition if media_type in _SHOWN else "attachment"
    shown = _shortened(_visible(name) or "file")
    plain = _NOT_PLAIN.sub("_", _without_accents(shown))
    return f"{granted}; filename=\"{plain}\"; filename*=UTF-8''{quote(shown, safe=_ATTR_CHAR)}"


def content_policy(media_type: str) -> str:
    """Content-Security-Policy for a download: no script, no form, no request, no origin of ours.

    A PDF is not sandboxed, since browsers refuse to show one in a sandbox; its viewer has an origin of its own.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return f"{policy}; object-src 'self'" if media_type == "application/pdf" else f"{policy}; sandbox"


def _visible(name: str) -> str:
    """The name without what hides or turns parts of it; empty if nothing of it can be seen."""
    kept = "".join(char for char in name if char in _JOINERS or unicodedata.category(char) not in _HIDDEN).strip()
    return kept if kept.strip(_JOINERS) else ""


def _without_accents(name: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))


def _shortened(name: str) -> str:
    """At most 255 characters, with the extension kept."""
    if len(name) <= _MAX_LENGTH:
        return name
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension) > 16:
        return name[:_MAX_LENGTH]
    return stem[: _MAX_LENGTH - len(extension) - 1] + dot + extension
