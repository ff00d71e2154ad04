"""A real Chromium, Debian's, driven by its DevTools protocol (https://chromedevtools.github.io/devtools-protocol).

One browser serves a whole run of tests. Each test opens a profile of its own in it, which shares nothing with others:
no storage, no cache, no download.

Not by Playwright, which brings a node of its own: 160 MiB more in the environment that `make run` installs too.
"""

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

_FLAGS = (
    "--headless",
    "--no-sandbox",  # as root it has none
    "--disable-dev-shm-usage",  # which is small in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-proxy-server",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
_STARTED_WITHIN_S = 60.0
_ANSWERED_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.02
_MAX_MESSAGE = 64 << 20


class PageError(AssertionError):
    """A page did not do what it was told to: what it threw, and what its console says."""


@contextmanager
def run_chromium(folder: Path) -> Iterator[str]:
    """Start a browser that keeps everything in this folder; gives the address of its DevTools, and ends it."""
    executable = shutil.which("chromium")
    assert executable is not None, "make chromium"
    command = [executable, *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
    # Names of downloads are written as UTF-8, whatever the language of whoever runs the tests.
    environment = os.environ | {"LC_ALL": "C.UTF-8", "HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        browser = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    try:
        yield _devtools_url(browser, folder)
    finally:
        browser.terminate()
        try:
            browser.wait(timeout=10)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()


def _devtools_url(browser: subprocess.Popen[bytes], folder: Path) -> str:
    """Wait for the file in which it says where it listens: a port, and a path."""
    deadline = time.monotonic() + _STARTED_WITHIN_S
    while time.monotonic() < deadline:
        assert browser.poll() is None, (folder / "log").read_text()
        with contextlib.suppress(FileNotFoundError, ValueError):
            port, path = (folder / "profile" / "DevToolsActivePort").read_text().split()
            return f"ws://127.0.0.1:{port}{path}"
        time.sleep(_LOOK_EVERY_S)
    raise TimeoutError((folder / "log").read_text())


@dataclass(frozen=True, slots=True)
class _Event:
    """Something that the browser told of itself."""

    method: str
    session: str | None
    params: dict[str, Any]


class _DevTools:
    """Calls to the browser, and what it tells meanwhile."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._events: list[_Event] = []
        self._told = asyncio.Condition()

    async def listen(self) -> None:
        """Take what comes in until the line ends."""
        async for message in self._socket:
            content = json.loads(message.data)
            if (call := self._calls.pop(content.get("id", 0), None)) is not None:
                if not call.done():
                    call.set_result(content)
                continue
            async with self._told:
                self._events.append(_Event(content["method"], content.get("sessionId"), content["params"]))
                self._told.notify_all()

    async def call(self, method: str, session: str | None = None, **params: object) -> dict[str, Any]:
        """The result of a method; PageError where the browser refuses."""
        number = next(self._numbers)
        self._calls[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        await self._socket.send_json(message)
        async with asyncio.timeout(_ANSWERED_WITHIN_S):
            answer = await self._calls[number]
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def events(self, method: str, session: str | None = None, *, since: int = 0) -> list[dict[str, Any]]:
        """What it told under this name."""
        return [event.params for event in self._events[since:] if (event.method, event.session) == (method, session)]

    @property
    def now(self) -> int:
        """The number of what it told so far: `since` for what is to come."""
        return len(self._events)

    async def event(self, method: str, session: str | None = None, *, since: int, **fields: object) -> dict[str, Any]:
        """The first event of this name with these values, once it is there."""

        def found() -> dict[str, Any] | None:
            events = self.events(method, session, since=since)
            return next((params for params in events if fields.items() <= params.items()), None)

        async with asyncio.timeout(_ANSWERED_WITHIN_S), self._told:
            await self._told.wait_for(lambda: found() is not None)
        event = found()
        assert event is not None
        return event


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer as far as a page may read it."""

    status: int
    headers: dict[str, str]  # in lower case
    text: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON
        """The body of an answer in JSON."""
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Download:
    """A file as the browser has saved it."""

    name: str
    content: bytes


class Page:
    """A tab."""

    def __init__(self, devtools: _DevTools, session: str, downloads: Path) -> None:
        self._devtools = devtools
        self._session = session
        self._downloads = downloads

    async def open(self, url: str) -> None:
        """Go to an address and wait until what is there is loaded."""
        since = self._devtools.now
        answer = await self._devtools.call("Page.navigate", self._session, url=url)
        assert "errorText" not in answer, answer
        await self._devtools.event("Page.loadEventFired", self._session, since=since)

    async def reload(self) -> None:
        """Load the page anew; what it had on its way is broken off."""
        since = self._devtools.now
        await self._devtools.call("Page.reload", self._session)
        await self._devtools.event("Page.loadEventFired", self._session, since=since)

    async def run(self, script: str) -> Any:  # noqa: ANN401 - JSON
        """The value of an expression, awaited; `await` works in it. PageError with what it throws."""
        answer = await self._devtools.call(
            "Runtime.evaluate", self._session,
            expression=f"(async () => ({script}))()", awaitPromise=True, returnByValue=True, userGesture=True,
        )  # fmt: skip
        if "exceptionDetails" in answer:
            thrown = answer["exceptionDetails"]
            raise PageError("\n".join([thrown.get("exception", {}).get("description", thrown["text"]), *self.console]))
        return answer["result"].get("value")

    async def fetch(
        self, url: str, *, method: str = "GET", headers: dict[str, str] | None = None, body: str | int = ""
    ) -> Fetched:
        """What the page's `fetch` gets; a `body` that is a number stands for so many NULs. PageError if it may not."""
        options = json.dumps({"method": method, "headers": headers or {}})
        sent = f"new Uint8Array({body})" if isinstance(body, int) else json.dumps(body)
        script = f"fetch({json.dumps(url)}, {{...{options}, body: {sent} || undefined}})"
        return Fetched(
            **await self.run(
                f"{script}.then(async (got) => "
                "({status: got.status, headers: Object.fromEntries(got.headers), text: await got.text()}))"
            )
        )

    async def choose(self, selector: str, path: Path) -> None:
        """Choose a file, as a person does."""
        root = await self._devtools.call("DOM.getDocument", self._session)
        node = await self._devtools.call(
            "DOM.querySelector", self._session, nodeId=root["root"]["nodeId"], selector=selector
        )
        await self._devtools.call("DOM.setFileInputFiles", self._session, nodeId=node["nodeId"], files=[str(path)])

    async def download(self, script: str) -> Download:
        """The file that the browser saves because of a script."""
        since = self._devtools.now
        await self.run(script)
        begun = await self._devtools.event("Browser.downloadWillBegin", since=since)
        await self._devtools.event("Browser.downloadProgress", since=since, guid=begun["guid"], state="completed")
        [path] = self._downloads.iterdir()
        saved = Download(path.name, path.read_bytes())
        path.unlink()
        return saved

    @property
    def console(self) -> list[str]:
        """What the browser complained of, refused requests above all."""
        return [params["entry"]["text"] for params in self._devtools.events("Log.entryAdded", self._session)]


@asynccontextmanager
async def open_page(devtools_url: str, folder: Path) -> AsyncIterator[Page]:
    """An empty page with a profile of its own; `folder` takes its downloads."""
    downloads = folder / "downloads"
    downloads.mkdir()
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(devtools_url, max_msg_size=_MAX_MESSAGE) as socket,
        _connected(socket) as devtools,
    ):
        context = (await devtools.call("Target.createBrowserContext"))["browserContextId"]
        await devtools.call(
            "Browser.setDownloadBehavior",
            behavior="allow", browserContextId=context, downloadPath=str(downloads), eventsEnabled=True,
        )  # fmt: skip
        target = (await devtools.call("Target.createTarget", url="about:blank", browserContextId=context))["targetId"]
        session = (await devtools.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        for domain in ("Page", "Log", "DOM"):
            await devtools.call(f"{domain}.enable", session)
        try:
            yield Page(devtools, session, downloads)
        finally:
            await devtools.call("Target.disposeBrowserContext", browserContextId=context)


@asynccontextmanager
async def _connected(socket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[_DevTools]:
    devtools = _DevTools(socket)
    listening = asyncio.create_task(devtools.listen())
    try:
        yield devtools
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
