"""Another tenant's ids are the ids of nothing, on every route that dms-ingest has."""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from dms_ingest.routes import ROUTES
from nexarch.auth import Access
from nexarch.routing import Route
from support.ingest import PDF, Ingest, Person, sign_in
from support.services import CoreApi
from support.tus import CHUNK_TYPE, VERSION

pytestmark = pytest.mark.database

Ids = dict[str, str]

# What each call needs besides ids, so that nothing but the ids can be the reason of a refusal.
BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/v1/documents/{id}"): {"name": "Meins.pdf"},
    ("PATCH", "/v1/folders/{id}"): {"name": "meins"},
    ("PATCH", "/v1/tags/{id}"): {"name": "meins"},
    ("PATCH", "/v1/metadata-fields/{id}"): {"name": "meins"},
    ("POST", "/v1/documents/{id}/links"): {"expires_in": 60},
    ("PUT", "/v1/documents/{id}/metadata/{field_id}"): {"value": "x"},
}
# The last segment before an id says whose id it is.
OWNERS = {
    "documents": "document",
    "uploads": "upload",
    "files": "upload",
    "folders": "folder",
    "tags": "tag",
    "metadata": "field",
    "metadata-fields": "field",
    "store-checks": "check",
}


@dataclass(frozen=True)
class Household:
    """A tenant with one thing of each kind."""

    person: Person
    ids: Ids


async def furnish(core: CoreApi, ingest: Ingest) -> Household:
    admin = await sign_in(core, role="admin")
    document = await ingest.upload(admin, PDF)
    _, folder = await ingest.call(admin, "POST", "/v1/folders", json={"name": "Akten"})
    _, tag = await ingest.call(admin, "POST", "/v1/tags", json={"name": "Wichtig"})
    _, field = await ingest.call(admin, "POST", "/v1/metadata-fields", json={"name": "Wort", "type": "text"})
    await ingest.call(admin, "PUT", f"/v1/documents/{document['id']}/tags/{tag['id']}")
    await ingest.call(admin, "PUT", f"/v1/documents/{document['id']}/metadata/{field['id']}", json={"value": "x"})
    thrown_away = await ingest.upload(admin, PDF)
    await ingest.call(admin, "DELETE", f"/v1/documents/{thrown_away['id']}")
    upload_id = await ingest.open_upload(admin, len(PDF))
    _, check = await ingest.call(admin, "POST", "/v1/store-checks", json={})
    ids = {"document": document["id"], "folder": folder["id"], "tag": tag["id"], "field": field["id"]}
    return Household(admin, ids | {"upload": upload_id, "trashed": thrown_away["id"], "check": check["id"]})


def kinds(route: Route) -> list[str]:
    """What the ids in a route's path belong to, in their order; a revision's number is no id."""
    return [OWNERS[owner] for owner in re.findall(r"/([a-z-]+)/\{(?:id|\w+_id)\}", route.path)]


def filled(route: Route, ids: list[str]) -> str:
    """The path with these ids, and the first revision."""
    rest = iter(ids)
    return re.sub(r"\{(\w+)\}", lambda match: "1" if match[1] == "number" else next(rest), route.path)


async def call(ingest: Ingest, person: Person, route: Route, path: str) -> int:
    """The status of a call with whatever body it needs."""
    body = BODIES.get((route.method, route.path))
    data = PDF if route.takes is not None else None
    headers = person.headers
    if path.startswith("/files/"):
        headers |= VERSION | {"Content-Type": CHUNK_TYPE, "Upload-Offset": "0", "X-HTTP-Method-Override": "PATCH"}
    async with ingest.session.request(
        route.method, ingest.url + path, headers=headers, json=body, data=data
    ) as response:
        await response.read()
        return response.status


NO_LISTS = {"/v1/settings", "/v1/usage"}
WITH_IDS = [route for route in ROUTES if "{" in route.path and not route.access & Access.PUBLIC]


async def test_every_route_with_an_id_knows_none_of_another_tenant(core_api: CoreApi, ingest: Ingest) -> None:
    theirs, mine = await furnish(core_api, ingest), await furnish(core_api, ingest)

    for route in WITH_IDS:
        of = kinds(route)
        assert of, route.path
        foreign = [theirs.ids[kind] for kind in of]
        own = [mine.ids[kind] for kind in of]
        # All of them foreign, and each alone among my own.
        for ids in [foreign, *([*own[:n], foreign[n], *own[n + 1 :]] for n in range(len(of)) if len(of) > 1)]:
            status = await call(ingest, mine.person, route, filled(route, ids))

            assert status == 404, (route.method, route.path, ids)

    # They have it all still, so the ids were good.
    for route in WITH_IDS:
        if route.method == "GET" and not route.path.endswith("/text"):  # no worker here to take the text
            status = await call(
                ingest, theirs.person, route, filled(route, [theirs.ids[kind] for kind in kinds(route)])
            )
            assert status == 200, route.path


async def test_no_list_shows_a_thing_of_another_tenant(core_api: CoreApi, ingest: Ingest) -> None:
    theirs, mine = await furnish(core_api, ingest), await furnish(core_api, ingest)
    lists = [
        route for route in ROUTES if route.method == "GET" and "{" not in route.path and route.path not in NO_LISTS
    ]
    assert len(lists) >= 5

    for route in lists:
        query = "?q=Bericht" if route.path == "/v1/search" else ""
        async with ingest.session.get(ingest.url + route.path + query, headers=mine.person.headers) as response:
            text = await response.text()

        assert response.status == 200, route.path
        assert any(id_ in text for id_ in mine.ids.values()), route.path
        assert not any(id_ in text for id_ in theirs.ids.values()), route.path


async def test_nothing_is_put_into_a_place_of_another_tenant(core_api: CoreApi, ingest: Ingest) -> None:
    theirs, mine = await furnish(core_api, ingest), await furnish(core_api, ingest)
    upload = {"filename": "a.pdf", "mime_type": "application/pdf", "size": 15}
    calls: list[tuple[str, str, Any]] = [
        ("POST", "/v1/uploads", upload | {"folder_id": theirs.ids["folder"]}),
        ("POST", "/v1/uploads", upload | {"document_id": theirs.ids["document"]}),
        ("POST", "/v1/folders", {"name": "x", "parent_id": theirs.ids["folder"]}),
        ("PATCH", f"/v1/folders/{mine.ids['folder']}", {"parent_id": theirs.ids["folder"]}),
        ("PATCH", f"/v1/documents/{mine.ids['document']}", {"folder_id": theirs.ids["folder"]}),
        ("GET", f"/v1/folders?parent={theirs.ids['folder']}", None),
    ]
    for method, path, body in calls:
        status, _ = await ingest.call(mine.person, method, path, json=body)

        assert status == 404, (method, path)


async def test_a_token_of_nobody_and_no_token_open_no_route(ingest: Ingest) -> None:
    for route in ROUTES:
        if route.access & Access.PUBLIC:
            continue
        path = re.sub(r"\{\w+\}", "01890a5d-ac96-774b-bcce-b302099a8057", route.path)
        for headers in [{}, {"Authorization": "Bearer x.y.z"}]:
            async with ingest.session.request(route.method, ingest.url + path, headers=headers) as response:
                assert response.status == 401, (route.method, path)
