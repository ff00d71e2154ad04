"""Folders: a tree of names that documents lie in. The schema keeps it a tree of at most 32 levels."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from dms_ingest.names import composed, name_rules
from nexarch.db import Connection, fetch_all, fetch_one, fetch_optional
from nexarch.errors import Conflict, NotFound


class FolderNotFound(NotFound):
    """There is no such folder in this tenant."""

    code = "folder-not-found"


class FolderNameTaken(Conflict):
    """Another folder in the same place has this name."""

    code = "folder-name-taken"
    title = "The name is taken"


class FolderCycle(Conflict):
    """A folder cannot be moved into itself or into a folder below it."""

    code = "folder-cycle"
    title = "A folder cannot lie in itself"


class FolderTooDeep(Conflict):
    """Folders stand at most 32 deep."""

    code = "folder-too-deep"
    title = "The folders would stand too deep"


class FolderNotEmpty(Conflict):
    """Only an empty folder can be deleted."""

    code = "folder-not-empty"
    title = "The folder is not empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One row of `folders` that is not deleted."""

    id: UUID
    parent_id: UUID | None
    name: str
    created_by: UUID | None
    created_at: datetime
    updated_at: datetime


async def create_folder(conn: Connection, *, name: str, parent_id: UUID | None, user_id: UUID) -> Folder:
    """Add a folder; call it in a transaction. Raises FolderNotFound for the parent, and what `_tree_rules` names."""
    sql = """
        INSERT INTO folders (name, parent_id, created_by)
        VALUES ($1, $2, $3)
        RETURNING id, parent_id, name, created_by, created_at, updated_at
    """
    await _take_turn(conn)
    await hold_folder(conn, parent_id)
    with _tree_rules():
        return await fetch_one(conn, Folder, sql, composed(name), parent_id, user_id)


async def get_folder(conn: Connection, folder_id: UUID) -> Folder:
    """One folder; FolderNotFound."""
    sql = """
        SELECT id, parent_id, name, created_by, created_at, updated_at
        FROM folders
        WHERE id = $1 AND deleted_at IS NULL
    """
    folder = await fetch_optional(conn, Folder, sql, folder_id)
    if folder is None:
        raise FolderNotFound("There is no such folder.")
    return folder


async def list_folders(
    conn: Connection, *, parent_id: UUID | None, everywhere: bool, after: tuple[str, UUID] | None, limit: int
) -> list[Folder]:
    """Folders by name: the children of one (None: the top level), or all of the tree if `everywhere`."""
    sql = """
        SELECT id, parent_id, name, created_by, created_at, updated_at
        FROM folders
        WHERE deleted_at IS NULL AND ($1 OR parent_id IS NOT DISTINCT FROM $2)
            AND ($3::text IS NULL OR (name COLLATE "C", id) > ($3::text COLLATE "C", $4::uuid))
        ORDER BY name COLLATE "C", id
        LIMIT $5
    """
    name, folder_id = after if after is not None else (None, None)
    return await fetch_all(conn, Folder, sql, everywhere, parent_id, name, folder_id, limit)


async def change_folder(
    conn: Connection, folder_id: UUID, *, name: str | None, move: bool, parent_id: UUID | None
) -> Folder:
    """Rename a folder (`name`), move it under `parent_id` (if `move`), or both; call it in a transaction.

    Raises FolderNotFound for either folder, and what `_tree_rules` names.
    """
    sql = """
        UPDATE folders
        SET name = coalesce($2, name), parent_id = CASE WHEN $3 THEN $4 ELSE parent_id END, updated_at = now()
        WHERE id = $1 AND deleted_at IS NULL
        RETURNING id, parent_id, name, created_by, created_at, updated_at
    """
    await _take_turn(conn)
    if move and parent_id != folder_id:
        await hold_folder(conn, parent_id)
    with _tree_rules():
        new_name = None if name is None else composed(name)
        folder = await fetch_optional(conn, Folder, sql, folder_id, new_name, move, parent_id)
    if folder is None:
        raise FolderNotFound("There is no such folder.")
    return folder


async def delete_folder(conn: Connection, folder_id: UUID) -> None:
    """Delete an empty folder; call it in a transaction. Raises FolderNotFound and FolderNotEmpty.

    Documents in the trash do not count: they keep pointing at the deleted folder.
    """
    sql = """
        UPDATE folders
        SET deleted_at = now()
        WHERE id = $1
            AND NOT EXISTS (SELECT FROM folders AS child WHERE child.parent_id = $1 AND child.deleted_at IS NULL)
            AND NOT EXISTS (SELECT FROM documents AS d WHERE d.folder_id = $1 AND d.deleted_at IS NULL)
        RETURNING true
    """
    await _lock_folder(conn, folder_id)
    if await conn.fetchval(sql, folder_id) is None:
        raise FolderNotEmpty("The folder holds documents or other folders.")


async def hold_folder(conn: Connection, folder_id: UUID | None) -> None:
    """Keep a folder from being deleted until the transaction ends, so that something can be put into it.

    None, the top level, is always there. Raises FolderNotFound.
    """
    if folder_id is None:
        return
    sql = "SELECT true FROM folders WHERE id = $1 AND deleted_at IS NULL FOR SHARE"
    if await conn.fetchval(sql, folder_id) is None:
        raise FolderNotFound("There is no such folder.", folder_id=str(folder_id))


async def _take_turn(conn: Connection) -> None:
    """Wait for whoever is changing the tree, before any folder is locked.

    The trigger that keeps it a tree takes this lock too, but only with a folder locked already: two who move folders
    into each other would wait for each other.
    """
    await conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('nexarch folders', 0))")


async def _lock_folder(conn: Connection, folder_id: UUID) -> None:
    """Wait for whoever is putting something into the folder: the next statement sees it."""
    sql = "SELECT true FROM folders WHERE id = $1 AND deleted_at IS NULL FOR UPDATE"
    if await conn.fetchval(sql, folder_id) is None:
        raise FolderNotFound("There is no such folder.")


@contextmanager
def _tree_rules() -> Iterator[None]:
    """Translate Postgres' refusals: NameRefused, FolderNameTaken, FolderCycle, FolderTooDeep."""
    try:
        with name_rules():
            yield
    except asyncpg.UniqueViolationError as error:
        raise FolderNameTaken("A folder in the same place has this name.") from error
    except asyncpg.CheckViolationError as error:
        match error.constraint_name:
            case "folders_no_cycle" | "folders_not_own_parent":
                raise FolderCycle("A folder cannot be moved into itself or into a folder below it.") from error
            case "folders_depth":
                raise FolderTooDeep("Folders stand at most 32 deep.") from error
        raise
