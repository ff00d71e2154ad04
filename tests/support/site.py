"""A web site of an origin of its own: a page with a script, and what it is told to serve beside it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from support.ingest import serving

_PAGE = """<!doctype html><title>Uploads</title>
<input type="file">
<script>const chosen = () => document.querySelector('input').files[0]</script>
<script src="/script.js"></script>
"""


@dataclass(slots=True)
class Site:
    """The running site: `url` is its origin."""

    url: str
    files: dict[str, tuple[bytes, Mapping[str, str]]] = field(default_factory=dict)  # by path: content and headers
    asked: list[str] = field(default_factory=list)  # paths, in order

    async def answer(self, request: web.Request) -> web.Response:
        """Whatever path: a file of it, else 204."""
        self.asked.append(request.path)
        if request.path not in self.files:
            return web.Response(status=204)
        content, headers = self.files[request.path]
        return web.Response(body=content, headers=headers)


@asynccontextmanager
async def run_site(script: bytes) -> AsyncIterator[Site]:
    """Serve the page at /; what `script` defines is there, and `chosen()` is the file that was chosen."""
    site = Site("")
    site.files["/"] = (_PAGE.encode(), {"Content-Type": "text/html; charset=utf-8"})
    site.files["/script.js"] = (script, {"Content-Type": "text/javascript; charset=utf-8"})
    app = web.Application()
    app.router.add_get("/{path:.*}", site.answer)
    async with serving(app) as site.url:
        yield site
