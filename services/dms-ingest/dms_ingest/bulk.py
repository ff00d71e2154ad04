"""Many documents changed at once: values, tags and folders, all or nothing.

Everything that is named is locked first, kind after kind and by id within a kind, so that two of these calls wait for
each other but never in a ring. Then each item is checked, and all that is wrong is told; only if nothing is, some
statements change all documents together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from dms_ingest.documents import DocumentNotFound
from dms_ingest.field_values import Columns, FieldValue, ValueRefused, typed
from dms_ingest.folders import FolderNotFound
from dms_ingest.metadata import FieldNotFound
from dms_ingest.tags import TagNotFound
from nexarch.db import Connection
from nexarch.errors import Invalid, Json, NexarchError

MOST_DOCUMENTS = 1000
_MOST_ERRORS = 100  # told in one answer


class BulkRefused(Invalid):
    """Some items cannot be changed, so none is. `errors` names the first hundred: `index`, `document_id`, why."""

    code = "bulk-refused"
    title = "Nothing was changed"


class ItemTwice(Invalid):
    """A document stands in two items of one call."""

    code = "item-twice"
    title = "The document is there twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What is to change on one document."""

    document_id: UUID
    move: bool = False
    folder_id: UUID | None = None  # with `move`; None: to the top level
    values: Mapping[UUID, FieldValue | None] = field(default_factory=dict)  # by field; None clears it
    assign: frozenset[UUID] = frozenset()  # tags
    unassign: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class _Known:
    """What is there of all that the items name, locked until the transaction ends."""

    folders: set[UUID]
    documents: set[UUID]
    tags: set[UUID]
    field_types: Mapping[UUID, str]
    options: set[tuple[UUID, str]]


Cell = tuple[UUID, UUID, str, Columns]  # document, field, the field's type, the value


async def change_documents(conn: Connection, items: Sequence[Item]) -> None:
    """Make all these changes; call it in a transaction. Raises BulkRefused, and then nothing is changed.

    A tag that is there already, one that is not there to be taken off, and a value that is not there to be cleared are
    no errors: what was wanted is so.
    """
    known = await _lock(conn, items)
    errors: list[Json] = []
    cells: list[Cell] = []
    seen: set[UUID] = set()
    for index, item in enumerate(items):
        for error in _wrong(item, known, cells, seen):
            if len(errors) < _MOST_ERRORS:
                errors.append(
                    {
                        "index": index,
                        "document_id": str(item.document_id),
                        "code": error.code,
                        "detail": error.detail,
                        **error.members,
                    }
                )
        seen.add(item.document_id)
    if errors:
        raise BulkRefused("Some items cannot be changed; nothing was.", errors=errors)
    await _move(conn, [(item.document_id, item.folder_id) for item in items if item.move])
    await _set(conn, cells)
    await _clear(conn, [(item.document_id, of) for item in items for of, value in item.values.items() if value is None])
    await _assign(conn, [(item.document_id, tag) for item in items for tag in item.assign])
    await _unassign(conn, [(item.document_id, tag) for item in items for tag in item.unassign])


def _wrong(item: Item, known: _Known, cells: list[Cell], seen: set[UUID]) -> Iterable[NexarchError]:
    """All that is wrong with an item; its values are added to `cells`."""
    if item.document_id in seen:
        yield ItemTwice("The document stands in an earlier item already.")
    if item.document_id not in known.documents:
        yield DocumentNotFound("There is no such document.")
    if item.move and item.folder_id is not None and item.folder_id not in known.folders:
        yield FolderNotFound("There is no such folder.", folder_id=str(item.folder_id))
    for tag in sorted(item.assign | item.unassign):
        if tag not in known.tags:
            yield TagNotFound("There is no such tag.", tag_id=str(tag))
    for of, value in item.values.items():
        field_type = known.field_types.get(of)
        if field_type is None:
            yield FieldNotFound("There is no such metadata field.", field_id=str(of))
        elif value is not None:
            try:
                cells.append((item.document_id, of, field_type, _columns(of, field_type, value, known)))
            except ValueRefused as error:
                yield ValueRefused(error.detail, **error.members, field_id=str(of))


def _columns(of: UUID, field_type: str, value: FieldValue, known: _Known) -> Columns:
    columns = typed(field_type, value)
    if columns.select is not None and (of, columns.select) not in known.options:
        raise ValueRefused("The field does not offer this option.", field_type=field_type)
    return columns


async def _lock(conn: Connection, items: Sequence[Item]) -> _Known:
    """In the order in which single changes lock too: folders, documents, tags, fields."""
    folders = await _hold_folders(conn, [item.folder_id for item in items if item.move and item.folder_id is not None])
    documents = await _hold_documents(conn, [item.document_id for item in items])
    tags = await _hold_tags(conn, [tag for item in items for tag in item.assign | item.unassign])
    field_types = await _hold_fields(conn, [of for item in items for of in item.values])
    options = await _hold_options(conn, [of for of, field_type in field_types.items() if field_type == "select"])
    return _Known(folders, documents, tags, field_types, options)


async def _hold_folders(conn: Connection, ids: Sequence[UUID]) -> set[UUID]:
    sql = "SELECT id FROM folders WHERE id = ANY($1) AND deleted_at IS NULL ORDER BY id FOR SHARE"
    return {row["id"] for row in await conn.fetch(sql, ids)}


async def _hold_documents(conn: Connection, ids: Sequence[UUID]) -> set[UUID]:
    sql = "SELECT id FROM documents WHERE id = ANY($1) AND deleted_at IS NULL ORDER BY id FOR NO KEY UPDATE"
    return {row["id"] for row in await conn.fetch(sql, ids)}


async def _hold_tags(conn: Connection, ids: Sequence[UUID]) -> set[UUID]:
    sql = "SELECT id FROM tags WHERE id = ANY($1) ORDER BY id FOR KEY SHARE"
    return {row["id"] for row in await conn.fetch(sql, ids)}


async def _hold_fields(conn: Connection, ids: Sequence[UUID]) -> Mapping[UUID, str]:
    sql = "SELECT id, type FROM metadata_fields WHERE id = ANY($1) ORDER BY id FOR KEY SHARE"
    return {row["id"]: row["type"] for row in await conn.fetch(sql, ids)}


async def _hold_options(conn: Connection, field_ids: Sequence[UUID]) -> set[tuple[UUID, str]]:
    sql = """
        SELECT field_id, value FROM metadata_options WHERE field_id = ANY($1) ORDER BY field_id, value FOR KEY SHARE
    """
    return {(row["field_id"], row["value"]) for row in await conn.fetch(sql, field_ids)}


async def _move(conn: Connection, moves: Sequence[tuple[UUID, UUID | None]]) -> None:
    sql = """
        UPDATE documents AS d
        SET folder_id = m.folder_id, version = version + 1, updated_at = now()
        FROM unnest($1::uuid[], $2::uuid[]) AS m (document_id, folder_id)
        WHERE d.id = m.document_id
    """
    if moves:
        await conn.execute(sql, [document for document, _ in moves], [folder for _, folder in moves])


async def _set(conn: Connection, cells: Sequence[Cell]) -> None:
    sql = """
        INSERT INTO document_metadata_values (document_id, field_id, field_type, value_text, value_number, value_date,
            value_bool, value_select)
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::numeric[], $6::text[]::date[],
            $7::boolean[], $8::text[])
        ON CONFLICT (document_id, field_id) DO UPDATE
        SET value_text = excluded.value_text, value_number = excluded.value_number, value_date = excluded.value_date,
            value_bool = excluded.value_bool, value_select = excluded.value_select
    """
    if cells:
        documents, fields, types, values = zip(*cells, strict=True)
        await conn.execute(sql, documents, fields, types, *zip(*values, strict=True))


async def _clear(conn: Connection, places: Sequence[tuple[UUID, UUID]]) -> None:
    sql = """
        DELETE FROM document_metadata_values AS v
        USING unnest($1::uuid[], $2::uuid[]) AS place (document_id, field_id)
        WHERE v.document_id = place.document_id AND v.field_id = place.field_id
    """
    if places:
        await conn.execute(sql, *zip(*places, strict=True))


async def _assign(conn: Connection, pairs: Sequence[tuple[UUID, UUID]]) -> None:
    sql = """
        INSERT INTO document_tags (document_id, tag_id) SELECT * FROM unnest($1::uuid[], $2::uuid[])
        ON CONFLICT DO NOTHING
    """
    if pairs:
        await conn.execute(sql, *zip(*pairs, strict=True))


async def _unassign(conn: Connection, pairs: Sequence[tuple[UUID, UUID]]) -> None:
    sql = """
        DELETE FROM document_tags AS dt
        USING unnest($1::uuid[], $2::uuid[]) AS pair (document_id, tag_id)
        WHERE dt.document_id = pair.document_id AND dt.tag_id = pair.tag_id
    """
    if pairs:
        await conn.execute(sql, *zip(*pairs, strict=True))
