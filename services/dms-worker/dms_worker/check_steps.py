"""The steps of a store's check: each is written in one transaction with where the check goes on after it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nexarch.db import Connection, fetch_optional
from nexarch.store_checks import Finding, StoreCheck

MOST_FINDINGS = 1000  # kept of one check; all are counted and logged


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step has looked at and found."""

    phase: str  # where to go on
    position: str
    objects: int = 0
    contents: int = 0
    bytes: int = 0
    orphans_young: int = 0
    leftovers: int = 0
    findings: Sequence[tuple[str, Finding]] = field(default=())  # storage key and what is wrong with it

    def count(self, *kinds: Finding) -> int:
        """How many findings are of these kinds."""
        return sum(kind in kinds for _, kind in self.findings)


async def record_step(conn: Connection, check: StoreCheck, step: Step) -> StoreCheck | None:
    """Add a step to a check, and return it as it is then; None if somebody else went on with it meanwhile.

    Call it in the transaction that writes the step's results, which must be rolled back in that case.
    """
    after = await _advance(conn, check, step)
    if after is not None and step.findings:
        await _add_findings(conn, check, step.findings)
    return after


async def _advance(conn: Connection, check: StoreCheck, step: Step) -> StoreCheck | None:
    sql = """
        UPDATE store_checks
        SET phase = $4, position = $5, objects = objects + $6, contents = contents + $7, bytes = bytes + $8,
            orphans_removed = orphans_removed + $9, orphans_young = orphans_young + $10, leftovers = leftovers + $11,
            missing = missing + $12, damaged = damaged + $13, unreadable_keys = unreadable_keys + $14,
            finished_at = CASE WHEN $4 = 'finished' THEN now() END
        WHERE id = $1 AND phase = $2 AND position = $3
        RETURNING id, scope, phase, position, created_at, finished_at, objects, contents, bytes, orphans_removed,
            orphans_young, leftovers, missing, damaged, unreadable_keys
    """
    return await fetch_optional(
        conn,
        StoreCheck,
        sql,
        check.id,
        check.phase,
        check.position,
        step.phase,
        step.position,
        step.objects,
        step.contents,
        step.bytes,
        step.count(Finding.ORPHAN),
        step.orphans_young,
        step.leftovers,
        step.count(Finding.MISSING),
        step.count(Finding.SIZE, Finding.CONTENT),
        step.count(Finding.KEY),
    )


async def _add_findings(conn: Connection, check: StoreCheck, findings: Sequence[tuple[str, Finding]]) -> None:
    """Room is left for so many; of one object the first finding stays."""
    sql = """
        INSERT INTO store_findings (check_id, storage_key, kind)
        SELECT $1, storage_key, kind
        FROM unnest($2::text[], $3::text[]) AS found (storage_key, kind)
        LIMIT (SELECT greatest(0, $4 - count(*)) FROM store_findings WHERE check_id = $1)
        ON CONFLICT DO NOTHING
    """
    keys, kinds = [key for key, _ in findings], [kind.value for _, kind in findings]
    await conn.execute(sql, check.id, keys, kinds, MOST_FINDINGS)
