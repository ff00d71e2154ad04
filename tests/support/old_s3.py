"""An S3 server of the first generation: the real one, behind a gateway that refuses what came later."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO

import aiohttp
from aiohttp import web
from yarl import URL

from support.ingest import serving

_NOT_IMPLEMENTED = """<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>NotImplemented</Code><Message>A header you provided implies functionality that is not implemented.</Message></Error>"""  # noqa: E501
_LATER = ("if-none-match", "x-amz-checksum-", "x-amz-sdk-checksum-")
_OF_THE_LINE = {"expect", "transfer-encoding", "connection"}


@asynccontextmanager
async def run_old_s3(upstream: str) -> AsyncIterator[str]:
    """Run the gateway before a server; gives its URL."""
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def answer(request: web.Request) -> web.Response:
            if any(name.lower().startswith(_LATER) for name in request.headers):
                return web.Response(status=501, text=_NOT_IMPLEMENTED, content_type="application/xml")
            # With the Host that was signed.
            headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _OF_THE_LINE]
            url = URL(upstream + request.raw_path, encoded=True)
            body = await request.read()
            async with session.request(request.method, url, headers=headers, data=BytesIO(body)) as response:
                given = {
                    n: v for n, v in response.headers.items() if n.lower() not in {*_OF_THE_LINE, "content-length"}
                }
                return web.Response(status=response.status, headers=given, body=await response.read())

        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", answer)
        async with serving(app) as url:
            yield url
