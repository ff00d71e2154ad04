"""`If-Match` on things whose ETag is their version."""

import re

from aiohttp import web

_VERSION = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def if_match(request: web.Request) -> list[int] | None:
    """The versions that `If-Match` names (RFC 9110, 13.1.1); None without it and for `*`. A foreign tag names none."""
    tags = request.if_match
    if tags is None or any(tag.value == "*" for tag in tags):
        return None
    return [int(tag.value) for tag in tags if not tag.is_weak and _VERSION.fullmatch(tag.value)]
