"""The development seed."""

import pytest

from nexarch.db import Connection
from nexarch.seed import seed

pytestmark = pytest.mark.database

SHOWN = """
    SELECT folders.name AS folder, documents.name AS document, tags.name AS tag,
           metadata_fields.name AS field, coalesce(value_number::text, value_date::text) AS value
      FROM documents
      LEFT JOIN folders ON folders.id = folder_id
      LEFT JOIN document_tags ON document_tags.document_id = documents.id
      LEFT JOIN tags ON tags.id = tag_id
      LEFT JOIN document_metadata_values v ON v.document_id = documents.id
      LEFT JOIN metadata_fields ON metadata_fields.id = field_id
     ORDER BY field
"""


async def test_the_seed_makes_a_tagged_document_with_values_in_a_folder(tenant_conn: Connection) -> None:
    await seed(tenant_conn)

    assert [tuple(row) for row in await tenant_conn.fetch(SHOWN)] == [
        ("Rechnungen", "Rechnung Müller 2024-001.pdf", "wichtig", "Betrag", "119.00"),
        ("Rechnungen", "Rechnung Müller 2024-001.pdf", "wichtig", "Fällig am", "2024-12-31"),
    ]


async def test_the_seed_run_again_changes_nothing(tenant_conn: Connection) -> None:
    await seed(tenant_conn)
    await tenant_conn.execute("UPDATE documents SET name = 'umbenannt.pdf'")
    before = await tenant_conn.fetch(SHOWN)

    await seed(tenant_conn)

    assert await tenant_conn.fetch(SHOWN) == before


async def test_the_seed_leaves_things_of_the_same_name_alone(tenant_conn: Connection) -> None:
    await tenant_conn.execute("INSERT INTO folders (name) VALUES ('Rechnungen')")
    await tenant_conn.execute("INSERT INTO tags (name) VALUES ('WICHTIG')")
    await tenant_conn.execute("INSERT INTO metadata_fields (name, type) VALUES ('betrag', 'text')")

    await seed(tenant_conn)

    assert [tuple(row) for row in await tenant_conn.fetch(SHOWN)] == [
        (None, "Rechnung Müller 2024-001.pdf", None, "Fällig am", "2024-12-31"),
    ]
