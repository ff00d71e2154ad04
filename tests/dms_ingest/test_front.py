"""The proxy in front, known by its host's name."""

import asyncio
from ipaddress import ip_network

from structlog.testing import capture_logs

from dms_ingest.front import Front


async def test_a_name_stands_for_its_addresses_alone() -> None:
    assert ip_network("127.0.0.1/32") in await Front("localhost").networks()


async def test_those_who_come_while_the_name_is_looked_up_for_the_first_time_wait_for_it() -> None:
    front = Front("localhost")

    networks = await asyncio.gather(*(front.networks() for _ in range(3)))

    assert all(ip_network("127.0.0.1/32") in known for known in networks)


async def test_without_a_name_nobody_is_believed() -> None:
    assert await Front(None).networks() == ()


async def test_a_name_that_has_no_address_is_nobodys_and_is_logged() -> None:
    front = Front("front.invalid")

    with capture_logs() as lines:
        networks = [await front.networks(), await front.networks()]

    assert networks == [(), ()]
    assert [line["log_level"] for line in lines] == ["warning"]  # asked once, not for each request
