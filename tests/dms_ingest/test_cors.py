"""Pages of other origins use the service only where the setting lets them; tests/browser has a browser's view."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from dms_ingest.routes import ROUTES
from support.ingest import PDF, Ingest, Person, ingest_settings, run_ingest
from support.services import CoreApi
from support.tus import VERSION, Tus, metadata

pytestmark = pytest.mark.database

APP, OTHER = "https://app.example.org", "https://evil.example.org"
NOBODYS_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
PREFLIGHT = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "authorization,upload-offset"}


@pytest.fixture
async def open_to_app(core_api: CoreApi, bus_dsn: str, tmp_path: Path) -> AsyncIterator[Ingest]:
    settings = ingest_settings(core_api, bus_dsn, tmp_path, cors_origins=f"{APP}, http://localhost:5173")
    async with run_ingest(settings) as running:
        yield running


async def test_a_page_of_an_allowed_origin_may_send_what_tus_needs_and_read_the_answers(
    open_to_app: Ingest, editor: Person
) -> None:
    tus = Tus(open_to_app, editor)
    async with open_to_app.session.options(
        f"{open_to_app.url}/files/{NOBODYS_ID}", headers={"Origin": APP} | PREFLIGHT
    ) as preflight:
        asked = preflight.headers
    length = VERSION | {"Origin": APP, "Upload-Length": "15"} | metadata(filename="a.pdf")
    created = await tus.call("POST", "/files/", length)
    refused = await tus.call("POST", "/files/", {"Origin": APP})
    async with open_to_app.session.post(f"{open_to_app.url}/files/", headers={"Origin": APP}) as response:
        unknown = response

    assert preflight.status == 204
    assert asked["Access-Control-Allow-Origin"] == APP
    assert "PATCH" in asked["Access-Control-Allow-Methods"]
    sendable = asked["Access-Control-Allow-Headers"].lower().split(", ")
    assert {"authorization", "upload-offset", "upload-metadata", "tus-resumable", "content-type"} <= set(sendable)
    assert (created.status, refused.status, unknown.status) == (201, 412, 401)
    for headers in (created.headers, refused.headers, unknown.headers):
        assert headers["Access-Control-Allow-Origin"] == APP
        assert headers["Vary"] == "Origin"
        assert {"Location", "Upload-Offset", "Nexarch-Document-Id"} <= set(
            headers["Access-Control-Expose-Headers"].split(", ")
        )
        assert "Access-Control-Allow-Credentials" not in headers


async def test_a_page_that_asks_what_is_spoken_here_is_told_so_by_the_route(open_to_app: Ingest) -> None:
    told = {}
    for path in ("/files/", "/v1/uploads"):
        async with open_to_app.session.options(open_to_app.url + path, headers={"Origin": APP}) as answer:
            told[path] = answer.status, answer.headers.get("Tus-Version")

    assert told == {"/files/": (204, "1.0.0"), "/v1/uploads": (405, None)}


async def test_another_origin_gets_nothing_of_it(open_to_app: Ingest, ingest: Ingest, editor: Person) -> None:
    for running in (open_to_app, ingest):
        for origin in [OTHER, "null", APP.upper(), f"{APP}.evil.org", f"{APP}, {OTHER}"]:
            if running is ingest:
                origin = APP  # noqa: PLW2901 - by default nobody is allowed
            for path in ("/files/", "/v1/uploads"):
                async with running.session.options(
                    running.url + path, headers={"Origin": origin} | PREFLIGHT
                ) as preflight:
                    assert not [name for name in preflight.headers if name.startswith("Access-Control")], origin


async def test_all_origins_may_be_allowed(core_api: CoreApi, bus_dsn: str, tmp_path: Path) -> None:
    async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path, cors_origins="*")) as running:
        async with running.session.options(f"{running.url}/files/", headers={"Origin": OTHER}) as answer:
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
        async with running.session.get(f"{running.url}/v1/documents", headers={"Origin": OTHER}) as answer:
            assert answer.headers["Access-Control-Allow-Origin"] == "*"


async def test_a_page_may_ask_before_it_calls_any_route_and_needs_no_token_for_that(open_to_app: Ingest) -> None:
    for route in ROUTES:
        path = re.sub(r"{\w+}", NOBODYS_ID, route.path)
        headers = {"Origin": APP, "Access-Control-Request-Method": route.method}
        async with open_to_app.session.options(open_to_app.url + path, headers=headers) as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (204, APP), path
            assert route.method in answer.headers["Access-Control-Allow-Methods"].split(", ")


async def test_health_and_metrics_are_not_for_pages(open_to_app: Ingest) -> None:
    for path in ("/livez", "/readyz", "/metrics", "/openapi.json", "/docs"):
        async with open_to_app.session.get(open_to_app.url + path, headers={"Origin": APP}) as answer:
            assert "Access-Control-Allow-Origin" not in answer.headers
        async with open_to_app.session.options(open_to_app.url + path, headers={"Origin": APP} | PREFLIGHT) as answer:
            assert answer.status == 405
            assert "Access-Control-Allow-Origin" not in answer.headers


async def test_what_is_no_origin_is_refused_at_the_start(core_api: CoreApi, bus_dsn: str, tmp_path: Path) -> None:
    for value in ["app.example.org", f"{APP}/", f"{APP}/path", "https://"]:
        with pytest.raises(ValidationError):
            ingest_settings(core_api, bus_dsn, tmp_path, cors_origins=value)


async def test_a_document_comes_of_an_upload_from_a_page(open_to_app: Ingest, editor: Person) -> None:
    tus = Tus(open_to_app, editor)
    path = await tus.create(len(PDF))

    answer = await tus.patch(path, 0, PDF, Origin=APP)

    assert answer.document_id is not None
    assert answer.headers["Access-Control-Allow-Origin"] == APP
