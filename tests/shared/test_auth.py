import base64
from uuid import uuid4

import pytest
from aiohttp.test_utils import make_mocked_request

from nexarch.auth import (
    OPEN,
    Access,
    FailureLimiter,
    Operator,
    Principal,
    Service,
    User,
    bearer_token,
    require,
    service_credentials,
)
from nexarch.errors import Forbidden, TooManyRequests, Unauthorized


def user(role: str) -> User:
    return User(id=uuid4(), tenant_id=uuid4(), tenant="acme", role=role)


OPERATOR = Operator(id=uuid4(), name="root")
SERVICE = Service(module_id="dms_ingest", client_id="c1")


@pytest.mark.parametrize(
    ("principal", "served"),
    [
        (OPERATOR, Access.OPERATOR),
        (SERVICE, Access.SERVICE),
        (user("viewer"), Access.VIEWER),
        (user("editor"), Access.VIEWER | Access.EDITOR),
        (user("admin"), Access.VIEWER | Access.EDITOR | Access.ADMIN),
    ],
)
def test_a_principal_is_served_by_the_routes_of_its_kind_and_by_no_other(principal: Principal, served: Access) -> None:
    for access in Access:
        if access in served | OPEN | Access.INTERNAL:
            require(principal, access)
        else:
            with pytest.raises(Forbidden, match=str(access.name).lower()):
                require(principal, access)


def test_nobody_is_served_by_open_routes_only() -> None:
    for access in OPEN:
        require(None, access)
    for access in set(Access) - set(OPEN):
        with pytest.raises(Unauthorized):
            require(None, access)


def basic(text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, None),
        ({"X-Nexarch-Client-Id": "c1"}, None),
        ({"X-Nexarch-Client-Id": "c1", "X-Nexarch-Client-Secret": "s"}, ("c1", "s")),
        (basic("c1:s:with:colons"), ("c1", "s:with:colons")),
        (basic("no colon"), None),
        ({"Authorization": "Bearer abc"}, None),
    ],
)
def test_service_credentials_come_in_two_headers_or_as_basic(
    headers: dict[str, str], found: tuple[str, str] | None
) -> None:
    assert service_credentials(make_mocked_request("GET", "/", headers=headers)) == found


@pytest.mark.parametrize("value", ["Basic !", "Basic /////w==", "Basic ä"])
def test_basic_credentials_that_are_no_base64_are_refused(value: str) -> None:
    with pytest.raises(Unauthorized):
        service_credentials(make_mocked_request("GET", "/", headers={"Authorization": value}))


@pytest.mark.parametrize(("value", "token"), [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Bearer", None)])
def test_a_bearer_token_is_read_whatever_the_case_of_its_scheme(value: str, token: str | None) -> None:
    assert bearer_token(make_mocked_request("GET", "/", headers={"Authorization": value})) == token


def test_only_the_address_and_client_that_keep_failing_are_slowed_down() -> None:
    limiter = FailureLimiter(failures=3, per_s=60)
    for _ in range(3):
        limiter.failed("10.0.0.1", "c1")

    with pytest.raises(TooManyRequests) as refused:
        limiter.failed("10.0.0.1", "c1")
    limiter.failed("10.0.0.2", "c1")
    limiter.failed("10.0.0.1", "c2")

    assert refused.value.members["retry_after_s"] == pytest.approx(21, abs=1)


def test_ten_thousand_strangers_do_not_make_the_limiter_grow() -> None:
    limiter = FailureLimiter(max_keys=100)

    for number in range(10_000):
        limiter.failed("10.0.0.1", f"client-{number}")

    assert len(limiter._buckets) == 100


def test_work_too_dear_is_refused_before_it_is_done_only_where_the_failures_came_from() -> None:
    limiter = FailureLimiter(failures=3, per_s=1000)
    for _ in range(3):
        limiter.check("10.0.0.1", "ada")
        limiter.failed("10.0.0.1", "ada")

    with pytest.raises(TooManyRequests):
        limiter.check("10.0.0.1", "ada")
    limiter.check("10.0.0.2", "ada")
    limiter.check("10.0.0.1", "bob")
