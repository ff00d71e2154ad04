"""What must be true when a fault is over: each function returns what is not, in words."""

import asyncio
import hashlib
from collections.abc import Mapping, Set
from datetime import datetime
from typing import Any
from uuid import UUID

import aiohttp

from faults.client import Client
from faults.documents import File
from faults.orphans import Orphans, new_orphans
from faults.stack import Stack
from nexarch.crypto.layout import NXO1
from support.waiting import eventually

Acknowledged = Mapping[UUID, File]

_DOWNLOADS_AT_ONCE = 4
_CHECKED_WITHIN_S = 300.0


async def unfinished(stack: Stack, http: aiohttp.ClientSession, acknowledged: Acknowledged) -> list[str]:
    """What the platform still has to do by itself: jobs that wait or run, usage that core-api has not heard of."""
    left = [f"{row['number']} jobs {row['status']}" for row in await _open_jobs(stack)]
    told = await _told_usage(stack, http)
    stored = sum(file.size for file in acknowledged.values())
    return left if told == stored else [*left, f"core-api was told of {told} bytes, {stored} are stored"]


async def wrong_rows(stack: Stack, acknowledged: Acknowledged) -> list[str]:
    """Documents that are missing, twice or not wanted; revisions, texts and jobs that are not one each."""
    rows = {UUID(row["id"]): row for row in await _documents(stack)}
    problems = [f"{file.name}: acknowledged, and has no row" for id_, file in acknowledged.items() if id_ not in rows]
    problems += [
        f"{row['name']}: a document that nobody was told of" for id_, row in rows.items() if id_ not in acknowledged
    ]
    for id_ in acknowledged.keys() & rows.keys():
        problems += _wrong_row(acknowledged[id_], rows[id_])
    return problems


async def wrong_bytes(client: Client, acknowledged: Acknowledged) -> list[str]:
    """Documents that do not come back as they went in."""
    gate = asyncio.Semaphore(_DOWNLOADS_AT_ONCE)

    async def compare(document_id: UUID, file: File) -> str | None:
        async with gate:
            expected = await asyncio.to_thread(lambda: hashlib.sha256(file.content()).hexdigest())
            try:
                came = await client.sha256(document_id)
            except (OSError, aiohttp.ClientError, TimeoutError) as error:
                return f"{file.name}: cannot be downloaded: {error}"
            return None if came == expected else f"{file.name}: other bytes came out than went in"

    results = await asyncio.gather(*(compare(id_, file) for id_, file in acknowledged.items()))
    return [result for result in results if result is not None]


async def wrong_usage(stack: Stack, http: aiohttp.ClientSession, acknowledged: Acknowledged) -> list[str]:
    """Counters that are not the bytes that lie in the store."""
    (row,) = await stack.rows(_database(stack), """
        SELECT used_bytes, (SELECT coalesce(sum(size_bytes), 0)::bigint FROM stored_objects) AS listed_bytes
        FROM storage_usage
    """)  # fmt: skip
    objects = await stack.objects()
    in_use = await _keys_in_use(stack)
    found = {
        "the tenant's counter": row["used_bytes"],
        "the rows of its objects": row["listed_bytes"],
        "its objects in the store": sum(
            NXO1.plaintext_size(stored.size) for key, stored in objects.items() if key in in_use
        ),
        "core-api": await _told_usage(stack, http),
    }
    expected = sum(file.size for file in acknowledged.values())
    return [f"{where}: {value} bytes, {expected} were uploaded" for where, value in found.items() if value != expected]


async def orphans(stack: Stack, known: Set[str], since: datetime) -> Orphans:
    """The objects that no row knows, not even one that says that it is to be deleted; see `new_orphans`."""
    return new_orphans(await stack.objects(), await _keys_in_use(stack), known, since=since)


async def wrong_report(stack: Stack, http: aiohttp.ClientSession, known_orphans: int) -> list[str]:
    """What the platform's own check of the whole store finds other than this run: it reads every object."""
    tenant = {"tenant": stack.tenant}
    headers = {"Authorization": f"Bearer {stack.operator_token}"}
    url = f"{stack.ingest_url}/v1/store-checks"
    report: dict[str, Any] = {}

    async def is_finished() -> bool:
        async with http.get(f"{url}/{ordered['id']}", params=tenant, headers=headers) as response:
            response.raise_for_status()
            report.update(await response.json())
        return report["finished_at"] is not None

    async with http.post(url, json={"scope": "all"}, params=tenant, headers=headers) as response:
        response.raise_for_status()
        ordered = await response.json()
    await eventually(is_finished, within_s=_CHECKED_WITHIN_S, every_s=0.5)
    expected = {
        "missing": 0,
        "damaged": 0,
        "unreadable_keys": 0,
        "orphans_removed": 0,
        "orphans_young": known_orphans,
    }
    return [f"check-store found {name}: {report[name]}, not {n}" for name, n in expected.items() if report[name] != n]


def _wrong_row(file: File, row: Mapping[str, Any]) -> list[str]:
    problems = []
    if row["name"] != file.name:
        problems.append(f"{file.name}: acknowledged with the id of {row['name']}")
    if row["revisions"] != 1:
        problems.append(f"{file.name}: {row['revisions']} revisions")
    if row["jobs"] != 1:
        problems.append(f"{file.name}: {row['jobs']} jobs")
    wanted = ("processed", None, True) if file.is_text else ("failed", "unsupported-type", False)
    if (row["state"], row["error"], row["has_text"]) != wanted:
        problems.append(f"{file.name}: {row['state']} {row['error'] or ''}, text: {row['has_text']}")
    return problems


async def _open_jobs(stack: Stack) -> list[dict[str, Any]]:
    sql = """
        SELECT status, count(*) AS number FROM processing_jobs
        WHERE job_type = 'extract_text' AND finished_at IS NULL GROUP BY status
    """
    return await stack.rows(_database(stack), sql)


async def _documents(stack: Stack) -> list[dict[str, Any]]:
    sql = """
        SELECT document.id::text AS id, document.name, revision.processing_state AS state,
            revision.processing_error_code AS error,
            (SELECT count(*) FROM file_revisions WHERE document_id = document.id) AS revisions,
            EXISTS (SELECT FROM document_texts WHERE revision_id = revision.id) AS has_text,
            (
                SELECT count(*) FROM processing_jobs
                WHERE job_type = 'extract_text' AND payload ->> 'document_id' = document.id::text
            ) AS jobs
        FROM documents AS document
        JOIN file_revisions AS revision ON revision.id = document.current_revision_id
    """
    return await stack.rows(_database(stack), sql)


async def _keys_in_use(stack: Stack) -> Set[str]:
    sql = "SELECT storage_key FROM stored_objects UNION SELECT storage_key FROM doomed_objects"
    return {row["storage_key"] for row in await stack.rows(_database(stack), sql)}


async def _told_usage(stack: Stack, http: aiohttp.ClientSession) -> int:
    """The bytes that core-api shows for the tenant."""
    async with http.get(
        f"{stack.core_url}/v1/usage",
        params={"tenant": stack.tenant},
        headers={"Authorization": f"Bearer {stack.operator_token}"},
    ) as response:
        response.raise_for_status()
        page = await response.json()
    return sum(item["value"] for item in page["items"] if item["metric"] == "storage_bytes")


def _database(stack: Stack) -> str:
    return f"tenant_{stack.tenant}"
