"""The description of a service, for programs and for people."""

from openapi_spec_validator import validate

from nexarch.routing import UNMATCHED
from support.things import Client


async def test_the_openapi_document_is_valid_and_lists_every_route(client: Client) -> None:
    document = await (await client.get("/openapi.json")).json()

    validate(document)
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    served = {
        (route.method, route.resource.canonical)
        for route in client.app.router.routes()
        if route.resource is not None and route.resource.name != UNMATCHED and route.method != "HEAD"
    }
    assert described == served
    post = document["paths"]["/v1/things"]["post"]
    assert set(post["responses"]) == {"201", "401", "403", "409", "422", "503"}
    assert post["summary"] == "add a thing"
    assert post["security"] == [{"user": []}]


async def test_the_docs_page_needs_no_script_and_no_other_host(client: Client) -> None:
    response = await client.get("/docs")

    page = await response.text()
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "/v1/things/{id}" in page
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page


async def test_the_docs_page_shows_codes_as_code_and_the_limits_of_parameters(client: Client) -> None:
    response = await client.get("/docs")

    page = await response.text()
    assert "<code>unauthorized</code>" in page
    assert "`" not in page
    assert "integer, at least 1, at most 200, default 50" in page
