"""Operators and their tokens."""

import pytest

from core_api.operators import OperatorNameTaken, add_operator, any_operator, find_operator
from core_api.secret_text import new_operator_token
from nexarch.db import Connection

pytestmark = pytest.mark.database


async def ada(conn: Connection) -> str:
    """Make ada an operator; returns her token."""
    token = new_operator_token()
    await add_operator(conn, "ada", token)
    return token


async def test_a_token_is_known_by_its_digest_only(registry_conn: Connection) -> None:
    token = await ada(registry_conn)

    operator = await find_operator(registry_conn, token)

    assert operator is not None
    assert operator.name == "ada"
    stored = await registry_conn.fetchval("SELECT operators::text FROM operators")
    assert token not in stored
    assert token.encode().hex() not in stored


async def test_a_disabled_operator_is_nobody(registry_conn: Connection) -> None:
    token = await ada(registry_conn)

    await registry_conn.execute("UPDATE operators SET disabled_at = now()")

    assert await find_operator(registry_conn, token) is None
    assert not await any_operator(registry_conn)


async def test_a_name_is_used_once(registry_conn: Connection) -> None:
    await ada(registry_conn)

    with pytest.raises(OperatorNameTaken, match="ada"):
        await ada(registry_conn)


async def test_the_last_use_is_written_once_a_minute_at_most(registry_conn: Connection) -> None:
    token = await ada(registry_conn)

    async def used_at(after_s: int) -> object:
        """When it was last used, seconds before now, if it is used `after_s` seconds after the time before."""
        await registry_conn.execute("UPDATE operators SET last_used_at = now() - make_interval(secs => $1)", after_s)
        await find_operator(registry_conn, token)
        return await registry_conn.fetchval("SELECT extract(epoch FROM now() - last_used_at)::int FROM operators")

    assert [await used_at(59), await used_at(61)] == [59, 0]
