"""Fixtures of the tests in which pages of a site call a dms-ingest of another origin."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support import js_clients
from support.chromium import Page, open_page, run_chromium
from support.ingest import Ingest, ingest_settings, run_ingest
from support.services import CoreApi
from support.site import Site, run_site
from support.uploads_page import example

_EXAMPLES = {
    "tus": "tus-js-client",
    "uppy": "Uppy",
    "json": "In a browser",
}


@pytest.fixture(scope="session")
def chromium() -> Iterator[str]:
    """The DevTools of a running browser, one for each process that runs tests."""
    js_clients.install("chromium")
    with (
        tempfile.TemporaryDirectory(prefix="nexarch-tests-", ignore_cleanup_errors=True) as folder,
        run_chromium(Path(folder)) as devtools_url,
    ):
        yield devtools_url


@pytest.fixture(scope="session")
def examples(npm_packages: None, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The examples of docs/uploads.md as a script: `examples.tus`, `examples.uppy` and `examples.json`."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "node_modules").symlink_to(js_clients.CLIENTS / "node_modules")
    for name, heading in _EXAMPLES.items():
        (folder / f"{name}.js").write_text(example(heading, "js"))
    exports = [f"export * as {name} from './{name}.js'\n" for name in _EXAMPLES]
    (folder / "all.js").write_text("".join(exports))
    return js_clients.bundle(folder / "all.js")


@pytest.fixture
async def site(examples: bytes) -> AsyncIterator[Site]:
    """The site whose pages `open_ingest` allows."""
    async with run_site(examples) as running:
        yield running


@pytest.fixture
async def other_site(examples: bytes) -> AsyncIterator[Site]:
    """A site of an origin that nobody allows."""
    async with run_site(examples) as running:
        yield running


@pytest.fixture
async def open_ingest(core_api: CoreApi, bus_dsn: str, tmp_path: Path, site: Site) -> AsyncIterator[Ingest]:
    """A dms-ingest that pages of the site may call; it takes types that could run, too."""
    types = "application/pdf,application/octet-stream,text/plain,text/html,image/svg+xml,application/xhtml+xml,text/xml"
    settings = ingest_settings(core_api, bus_dsn, tmp_path, cors_origins=site.url, allowed_types=types)
    async with run_ingest(settings) as running:
        yield running


@pytest.fixture
async def page(chromium: str, tmp_path: Path, site: Site) -> AsyncIterator[Page]:
    """The site's page in a browser."""
    async with open_page(chromium, tmp_path) as opened:
        await opened.open(site.url)
        yield opened
