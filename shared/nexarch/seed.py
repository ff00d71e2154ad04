"""A little data for development: a folder, a document in it, a tag, a metadata field and its value.

The document is a record without a file; the first upload to it becomes its revision 1.
"""

from datetime import date
from decimal import Decimal
from uuid import UUID

from nexarch.db import Connection

# Known ids make a second run find what the first one made, whatever it is called by then.
_FOLDER = UUID("00000000-0000-7000-8000-5eed00000001")
_DOCUMENT = UUID("00000000-0000-7000-8000-5eed00000002")
_TAG = UUID("00000000-0000-7000-8000-5eed00000003")
_AMOUNT = UUID("00000000-0000-7000-8000-5eed00000004")
_DUE = UUID("00000000-0000-7000-8000-5eed00000005")


async def seed(conn: Connection) -> None:
    """Put the sample data into a tenant database; run again, it changes nothing.

    Where the tenant has a folder, tag or field of the same name already, that one is left alone and the
    sample data go without.
    """
    async with conn.transaction():
        await _add_folder(conn, _FOLDER, "Rechnungen")
        await _add_document(conn, _DOCUMENT, _FOLDER, "Rechnung Müller 2024-001.pdf")
        await _add_tag(conn, _TAG, "wichtig")
        await _add_field(conn, _AMOUNT, "Betrag", "number")
        await _add_field(conn, _DUE, "Fällig am", "date")
        await _tag_document(conn, _DOCUMENT, _TAG)
        await _set_number(conn, _DOCUMENT, _AMOUNT, Decimal("119.00"))
        await _set_date(conn, _DOCUMENT, _DUE, date(2024, 12, 31))


async def _add_folder(conn: Connection, folder: UUID, name: str) -> None:
    await conn.execute("INSERT INTO folders (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING", folder, name)


async def _add_document(conn: Connection, document: UUID, folder: UUID, name: str) -> None:
    sql = """
        INSERT INTO documents (id, folder_id, name)
        VALUES ($1, (SELECT id FROM folders WHERE id = $2), $3)
        ON CONFLICT DO NOTHING
    """
    await conn.execute(sql, document, folder, name)


async def _add_tag(conn: Connection, tag: UUID, name: str) -> None:
    await conn.execute("INSERT INTO tags (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING", tag, name)


async def _add_field(conn: Connection, field: UUID, name: str, field_type: str) -> None:
    sql = "INSERT INTO metadata_fields (id, name, type) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
    await conn.execute(sql, field, name, field_type)


async def _tag_document(conn: Connection, document: UUID, tag: UUID) -> None:
    sql = """
        INSERT INTO document_tags (document_id, tag_id)
        SELECT $1, id FROM tags WHERE id = $2
        ON CONFLICT DO NOTHING
    """
    await conn.execute(sql, document, tag)


async def _set_number(conn: Connection, document: UUID, field: UUID, value: Decimal) -> None:
    sql = """
        INSERT INTO document_metadata_values (document_id, field_id, field_type, value_number)
        SELECT $1, id, type, $3 FROM metadata_fields WHERE id = $2
        ON CONFLICT DO NOTHING
    """
    await conn.execute(sql, document, field, value)


async def _set_date(conn: Connection, document: UUID, field: UUID, value: date) -> None:
    sql = """
        INSERT INTO document_metadata_values (document_id, field_id, field_type, value_date)
        SELECT $1, id, type, $3 FROM metadata_fields WHERE id = $2
        ON CONFLICT DO NOTHING
    """
    await conn.execute(sql, document, field, value)
