"""An unambiguous encoding of several values as one byte string, for what is authenticated together."""


def encode_fields(*fields: bytes) -> bytes:
    """Return the fields one after the other, each after its length as u32 big-endian.

    No two different lists of fields have the same encoding, so nothing can slide from one field into the
    next ("/doc/1" + "23" against "/doc/12" + "3").
    """
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)
