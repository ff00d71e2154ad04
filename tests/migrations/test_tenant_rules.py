"""Every rule that the tenant schema's SQL holds, broken once: the statement, and the constraint that refuses it."""

import pytest

from nexarch.db import Connection
from support.refusals import insert, names_that_are_none, refused_by, rules

pytestmark = pytest.mark.database

HASH = "'$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA'"
SHA = "sha256('x')"
WRAPPED = "decode(repeat('00', 60), 'hex')"
NOBODY = "'00000000-0000-7000-8000-00000000dead'"
# Rows that are there before each statement.
ANNA = "'00000000-0000-7000-8000-000000000001'"
TOP = "'00000000-0000-7000-8000-000000000002'"
BELOW = "'00000000-0000-7000-8000-000000000003'"
LETTER = "'00000000-0000-7000-8000-000000000004'"
FIRST = "'00000000-0000-7000-8000-000000000005'"
OTHER_LETTER = "'00000000-0000-7000-8000-000000000006'"
OTHER_FIRST = "'00000000-0000-7000-8000-000000000007'"
TAG = "'00000000-0000-7000-8000-000000000008'"
UPLOAD = "'00000000-0000-7000-8000-000000000009'"
TEXT, NUMBER, DATE, BOOL, SELECT = (f"'00000000-0000-7000-8000-00000000001{n}'" for n in range(5))


def key(document: str, revision: str) -> str:
    """The storage key of a revision, as an SQL literal."""
    return f"'documents/{document[1:-1]}/revisions/{revision[1:-1]}'"


USER = {"email": "'bea@example.org'", "display_name": "'Bea'", "role": "'viewer'", "password_hash": HASH}
FOLDER = {"name": "'Bills'", "parent_id": TOP}
DOCUMENT = {"name": "'note.pdf'"}
REVISION = {
    "id": NOBODY,
    "document_id": LETTER,
    "number": "2",
    "storage_key": key(LETTER, NOBODY),
    "checksum_sha256": SHA,
    "size_bytes": "0",
    "mime_type": "'application/pdf'",
    "wrapped_dek": WRAPPED,
    "kek_version": "1",
}
FIELD = {"name": "'Amount'", "type": "'number'"}
OPTION = {"field_id": SELECT, "value": "'green'"}
VALUE = {"document_id": LETTER, "field_id": TEXT, "field_type": "'text'", "value_text": "'x'"}
SESSION = {
    "user_id": ANNA,
    "filename": "'a.pdf'",
    "mime_type": "'application/pdf'",
    "size_bytes": "10",
    "expires_at": "now() + interval '1 day'",
}
COMPLETE = SESSION | {
    "state": "'complete'",
    "received": "'{[0,10)}'",
    "completed_document_id": LETTER,
    "completed_revision_id": FIRST,
}
PARTIAL = SESSION | {"concat_kind": "'partial'"}
FINAL = SESSION | {"concat_kind": "'final'", "concat_parts": f"ARRAY[{UPLOAD}]::uuid[]"}
COPY = REVISION | {"storage_key": key(LETTER, FIRST)}
OBJECT = {"storage_key": key(LETTER, NOBODY), "size_bytes": "1"}
EVENT = {"action": "'document.deleted'"}
NOISE = (
    "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 500) AS n)"  # 16,000 characters that do not shrink
)
USAGE = {"metric": "'storage_bytes'", "delta": "-5"}
STORE_CHECK = "'00000000-0000-7000-8000-000000000020'"
CHECK = {"scope": "'sample'"}
FINDING = {"check_id": STORE_CHECK, "storage_key": "'a'", "kind": "'orphan'"}
PART = {"revision_id": FIRST, "part": "1", "content": "'x'", "search": "''"}
JOB = {"job_type": "'extract_text_2'", "payload": "'{}'", "idempotency_key": "'key'", "traceparent": "'00-1'"}

PRESENT = [
    insert("users", USER, id=ANNA, email="'anna@example.org'"),
    insert("folders", FOLDER, id=TOP, parent_id="NULL", name="'Top'"),
    insert("folders", FOLDER, id=BELOW, name="'Below'"),
    insert("documents", DOCUMENT, id=LETTER, folder_id=BELOW),
    insert("documents", DOCUMENT, id=OTHER_LETTER),
    insert("file_revisions", REVISION, id=FIRST, number="1", storage_key=key(LETTER, FIRST)),
    insert("file_revisions", REVISION, id=OTHER_FIRST, number="1", document_id=OTHER_LETTER,
           storage_key=key(OTHER_LETTER, OTHER_FIRST)),
    f"UPDATE documents SET current_revision_id = {FIRST} WHERE id = {LETTER}",
    insert("tags", {"id": TAG, "name": "'Übung'"}),
    insert("document_tags", {"document_id": LETTER, "tag_id": TAG}),
    *(
        insert("metadata_fields", FIELD, id=field, name=f"'a {kind}'", type=f"'{kind}'")
        for field, kind in [(TEXT, "text"), (NUMBER, "number"), (DATE, "date"), (BOOL, "bool"), (SELECT, "select")]
    ),
    insert("metadata_options", OPTION, value="'red'"),
    insert("document_metadata_values", VALUE, document_id=OTHER_LETTER),
    insert("document_texts", PART, part="0"),
    insert("upload_sessions", SESSION, id=UPLOAD, idempotency_key="'once'"),
    insert("doomed_objects", {"storage_key": "'a'"}),
    insert("store_checks", CHECK, id=STORE_CHECK, scope="'all'"),
    insert("store_findings", FINDING),
]  # fmt: skip

VALID = [
    insert("users", USER),
    insert("processing_jobs", JOB),
    insert("folders", FOLDER),
    insert("folders", FOLDER, name="'Below'", deleted_at="now()"),
    insert("folders", FOLDER, name="'Below'", parent_id="NULL"),
    f"UPDATE folders SET parent_id = NULL WHERE id = {BELOW}",
    f"UPDATE folders SET name = 'Renamed', parent_id = {TOP} WHERE id = {BELOW}",
    insert("documents", DOCUMENT, name="repeat('ü', 255)"),
    insert("file_revisions", REVISION),
    insert("file_revisions", COPY),
    insert("file_revisions", REVISION, processing_state="'failed'", processing_error_code="'damaged'"),
    insert("tags", {"name": "'other'"}),
    insert("metadata_fields", FIELD),
    insert("metadata_options", OPTION),
    insert("document_metadata_values", VALUE),
    "INSERT INTO document_metadata_values (document_id, field_id, field_type, value_select)"
    f" VALUES ({LETTER}, {SELECT}, 'select', 'red')",
    insert("upload_sessions", SESSION),
    insert("upload_sessions", SESSION, received="'{[0,3),[7,10)}'"),
    insert("upload_sessions", SESSION, size_bytes="0"),
    insert("upload_sessions", SESSION, wrapped_key=WRAPPED, kek_version="1"),
    insert("upload_sessions", COMPLETE),
    insert("upload_sessions", COMPLETE, size_bytes="0", received="'{}'"),
    insert("upload_sessions", SESSION, length_deferred="true"),
    insert("upload_sessions", SESSION, tus_metadata="'filename YS5wZGY=,empty,more/~-+ YQ=='"),
    insert("upload_sessions", PARTIAL, concat_into=UPLOAD),
    insert("upload_sessions", FINAL),
    insert("usage_outbox", USAGE),
    insert("audit_events", EVENT, address="'2001:db8::1'"),
    insert("document_texts", PART),
    insert("store_checks", CHECK),
    insert("store_checks", CHECK, phase="'finished'", finished_at="now()"),
    insert("store_findings", FINDING, storage_key="'b'"),
    "UPDATE stored_objects SET checked_at = now(), damage = 'content'",
    *(f"UPDATE tenant_settings SET {change}" for change in [
        "duplicates = 'link'", "allowed_types = '{application/pdf,image/*}'", "quota_bytes = 0, trash_days = 0"]),
]  # fmt: skip


def typed(field: str, kind: str, **value: str) -> str:
    """An INSERT of a metadata value for the letter."""
    row = {"document_id": LETTER, "field_id": field, "field_type": f"'{kind}'"} | value
    return insert("document_metadata_values", row)


DEEP = f"""
    WITH RECURSIVE chain (n, id, parent) AS (
        SELECT 1, uuidv7(), {TOP}::uuid
        UNION ALL
        SELECT n + 1, uuidv7(), id FROM chain WHERE n < 31
    )
    INSERT INTO folders (id, parent_id, name) SELECT id, parent, 'level ' || n FROM chain ORDER BY n;
"""

REFUSED = [
    # users
    ("users_email_key", insert("users", USER, email="'anna@example.org'")),
    ("users_email_form", insert("users", USER, email="'bea'")),
    ("users_email_form", insert("users", USER, email="'b ea@example.org'")),
    ("users_email_form", insert("users", USER, email="repeat('b', 250) || '@x.org'")),
    ("users_email_lower", insert("users", USER, email="'Bea@example.org'")),
    ("users_email_lower", insert("users", USER, email="'ÄNNE@example.org'")),
    *(("users_display_name_form", insert("users", USER, display_name=name)) for name in names_that_are_none()),
    ("users_role_known", insert("users", USER, role="'root'")),
    ("users_password_is_argon2id", insert("users", USER, password_hash="'secret'")),
    ("users_password_is_argon2id", insert("users", USER, password_hash="'$2b$12$bcrypt'")),
    # folders
    ("folders_parent_fkey", insert("folders", FOLDER, parent_id=NOBODY)),
    ("folders_parent_fkey", f"UPDATE documents SET folder_id = NULL; DELETE FROM folders WHERE id = {TOP}"),
    ("folders_created_by_fkey", insert("folders", FOLDER, created_by=NOBODY)),
    *(("folders_name_form", insert("folders", FOLDER, name=name)) for name in [*names_that_are_none(), "'..'"]),
    ("folders_not_own_parent", f"UPDATE folders SET parent_id = id WHERE id = {TOP}"),
    ("folders_not_own_parent", insert("folders", FOLDER, id=NOBODY, parent_id=NOBODY)),
    ("folders_name_in_parent", insert("folders", FOLDER, name="'Below'")),
    ("folders_name_in_parent", insert("folders", FOLDER, name="'Top'", parent_id="NULL")),
    ("folders_no_cycle", f"UPDATE folders SET parent_id = {BELOW} WHERE id = {TOP}"),
    ("folders_depth", f"{DEEP} INSERT INTO folders (parent_id, name) SELECT id, 'x' FROM folders"
                      " WHERE name = 'level 31'"),
    ("folders_depth", f"{DEEP} UPDATE folders SET parent_id = {BELOW} WHERE name = 'level 1'"),
    # documents
    ("documents_folder_fkey", insert("documents", DOCUMENT, folder_id=NOBODY)),
    ("documents_folder_fkey", f"DELETE FROM folders WHERE id = {BELOW}"),
    ("documents_created_by_fkey", insert("documents", DOCUMENT, created_by=NOBODY)),
    *(("documents_name_form", insert("documents", DOCUMENT, name=name)) for name in [*names_that_are_none(), "'.'"]),
    ("documents_version_positive", insert("documents", DOCUMENT, version="0")),
    ("documents_current_revision_fkey", insert("documents", DOCUMENT, current_revision_id=NOBODY)),
    ("documents_current_revision_fkey",
     f"UPDATE documents SET current_revision_id = {OTHER_FIRST} WHERE id = {LETTER}"),
    # revisions
    ("file_revisions_document_fkey",
     insert("file_revisions", REVISION, document_id=NOBODY, storage_key=key(NOBODY, NOBODY))),
    ("file_revisions_document_fkey",
     f"DELETE FROM document_metadata_values; DELETE FROM documents WHERE id = {OTHER_LETTER}"),
    ("file_revisions_created_by_fkey", insert("file_revisions", REVISION, created_by=NOBODY)),
    ("file_revisions_number_key", insert("file_revisions", REVISION, number="1")),
    ("file_revisions_object_fkey", insert("file_revisions", REVISION, storage_key=key(LETTER, TOP))),
    ("file_revisions_object_fkey", "DELETE FROM stored_objects"),
    ("file_revisions_number_positive", insert("file_revisions", REVISION, number="0")),
    ("file_revisions_storage_key_form", insert("file_revisions", REVISION, storage_key="'../../etc/passwd'")),
    ("file_revisions_checksum_is_sha256", insert("file_revisions", REVISION, checksum_sha256="'short'")),
    ("file_revisions_size_not_negative", insert("file_revisions", COPY, size_bytes="-1")),
    ("file_revisions_mime_form", insert("file_revisions", REVISION, mime_type="'pdf'")),
    ("file_revisions_mime_form", insert("file_revisions", REVISION, mime_type=r"E'text/html\r\nX: y'")),
    ("file_revisions_dek_wrapped", insert("file_revisions", REVISION, wrapped_dek=SHA)),
    ("documents_link_epoch_not_negative", insert("documents", DOCUMENT, link_epoch="-1")),
    ("file_revisions_kek_version_fkey", insert("file_revisions", REVISION, kek_version="2")),
    ("file_revisions_kek_version_fkey", "DELETE FROM kek_versions"),
    ("kek_versions_pkey", "INSERT INTO kek_versions (version) VALUES (1)"),
    ("kek_versions_version_positive", "INSERT INTO kek_versions (version) VALUES (0)"),
    ("file_revisions_kek_version_positive", insert("file_revisions", REVISION, kek_version="0")),
    ("file_revisions_state_known", insert("file_revisions", REVISION, processing_state="'lost'")),
    ("file_revisions_failed_with_reason", insert("file_revisions", REVISION, processing_state="'failed'")),
    ("file_revisions_failed_with_reason", insert("file_revisions", REVISION, processing_error_code="'damaged'")),
    ("file_revisions_failed_with_reason", insert("file_revisions", REVISION, processing_error_detail="'x'")),
    ("file_revisions_error_code_form",
     insert("file_revisions", REVISION, processing_state="'failed'", processing_error_code="'Not Good'")),
    ("file_revisions_page_count_not_negative", insert("file_revisions", REVISION, page_count="-1")),
    # objects
    ("stored_objects_pkey", insert("stored_objects", OBJECT, storage_key=key(LETTER, FIRST))),
    ("stored_objects_key_form", insert("stored_objects", OBJECT, storage_key="'documents/x'")),
    ("stored_objects_size_not_negative", insert("stored_objects", OBJECT, size_bytes="-1")),
    # audit
    *(("audit_events_action_form", insert("audit_events", EVENT, action=action)) for action in ["''", "'x'", "'A.b'"]),
    ("audit_events_link_key_form", insert("audit_events", EVENT, link_key_id="repeat('x', 65)")),
    ("audit_events_request_form", insert("audit_events", EVENT, request_id="repeat('x', 65)")),
    *(("audit_events_details_form", insert("audit_events", EVENT, details=details))
      for details in ["'[]'", f"jsonb_build_object('x', {NOISE})"]),
    ("audit_events_kept", "SELECT prune_audit_events(interval '29 days', 1)"),
    ("doomed_objects_pkey", insert("doomed_objects", {"storage_key": "'a'"})),
    # tags
    *(("tags_name_form", insert("tags", {"name": name})) for name in names_that_are_none()),
    ("tags_name_any_case", insert("tags", {"name": "'üBUNG'"})),
    ("document_tags_pkey", insert("document_tags", {"document_id": LETTER, "tag_id": TAG})),
    ("document_tags_document_fkey", insert("document_tags", {"document_id": NOBODY, "tag_id": TAG})),
    ("document_tags_tag_fkey", insert("document_tags", {"document_id": LETTER, "tag_id": NOBODY})),
    # metadata
    *(("metadata_fields_name_form", insert("metadata_fields", FIELD, name=name)) for name in names_that_are_none()),
    ("metadata_fields_type_known", insert("metadata_fields", FIELD, type="'colour'")),
    ("metadata_fields_name_any_case", insert("metadata_fields", FIELD, name="'A Text'")),
    ("metadata_options_pkey", insert("metadata_options", OPTION, value="'red'")),
    ("metadata_options_field_fkey", insert("metadata_options", OPTION, field_id=NOBODY)),
    ("metadata_options_field_fkey", insert("metadata_options", OPTION, field_id=TEXT)),
    ("metadata_options_only_select", insert("metadata_options", OPTION, field_id=TEXT, field_type="'text'")),
    *(("metadata_options_value_form", insert("metadata_options", OPTION, value=name))
      for name in names_that_are_none()),
    ("document_metadata_values_pkey", insert("document_metadata_values", VALUE, document_id=OTHER_LETTER)),
    ("document_metadata_values_document_fkey", insert("document_metadata_values", VALUE, document_id=NOBODY)),
    ("document_metadata_values_field_fkey", insert("document_metadata_values", VALUE, field_id=NOBODY)),
    ("document_metadata_values_field_fkey", insert("document_metadata_values", VALUE, field_id=NUMBER)),
    ("document_metadata_values_field_fkey", f"UPDATE metadata_fields SET type = 'number' WHERE id = {TEXT}"),
    ("document_metadata_values_option_fkey", typed(SELECT, "select", value_select="'blue'")),
    ("document_metadata_values_option_fkey",
     typed(SELECT, "select", value_select="'red'") + "; DELETE FROM metadata_options"),
    ("document_metadata_values_one_value", typed(TEXT, "text", value_text="'x'", value_number="1")),
    ("document_metadata_values_of_its_type", typed(TEXT, "text", value_number="1")),
    ("document_metadata_values_of_its_type", typed(NUMBER, "number", value_text="'1'")),
    ("document_metadata_values_of_its_type", typed(DATE, "date", value_text="'2024-01-01'")),
    ("document_metadata_values_of_its_type", typed(BOOL, "bool", value_number="1")),
    ("document_metadata_values_of_its_type", typed(SELECT, "select", value_text="'red'")),
    ("document_metadata_values_text_length", typed(TEXT, "text", value_text="''")),
    ("document_metadata_values_text_length", typed(TEXT, "text", value_text="repeat('x', 10001)")),
    ("document_metadata_values_number_finite", typed(NUMBER, "number", value_number="'NaN'")),
    ("document_metadata_values_number_finite", typed(NUMBER, "number", value_number="'Infinity'")),
    ("document_metadata_values_date_finite", typed(DATE, "date", value_date="'infinity'")),
    # uploads
    ("upload_sessions_user_fkey", insert("upload_sessions", SESSION, user_id=NOBODY)),
    ("upload_sessions_document_fkey", insert("upload_sessions", SESSION, document_id=NOBODY)),
    ("upload_sessions_folder_fkey", insert("upload_sessions", SESSION, folder_id=NOBODY)),
    ("upload_sessions_completed_fkey", insert("upload_sessions", COMPLETE, completed_revision_id=OTHER_FIRST)),
    *(("upload_sessions_filename_form", insert("upload_sessions", SESSION, filename=name))
      for name in [*names_that_are_none(), "'..'"]),
    ("upload_sessions_mime_form", insert("upload_sessions", SESSION, mime_type="'text'")),
    ("upload_sessions_size_not_negative", insert("upload_sessions", SESSION, size_bytes="-1")),
    ("upload_sessions_sha256_length", insert("upload_sessions", SESSION, sha256="'short'")),
    ("upload_sessions_received_within_size", insert("upload_sessions", SESSION, received="'{[0,11)}'")),
    ("upload_sessions_received_within_size", insert("upload_sessions", SESSION, received="'{[-1,2)}'")),
    ("upload_sessions_state_known", insert("upload_sessions", SESSION, state="'lost'")),
    ("upload_sessions_complete_is_whole", insert("upload_sessions", COMPLETE, received="'{[0,4),[5,10)}'")),
    ("upload_sessions_complete_has_revision",
     insert("upload_sessions", COMPLETE, completed_document_id="NULL", completed_revision_id="NULL")),
    ("upload_sessions_complete_has_revision", insert("upload_sessions", COMPLETE, state="'open'")),
    ("upload_sessions_one_target", insert("upload_sessions", SESSION, document_id=LETTER, folder_id=TOP)),
    ("upload_sessions_idempotency_key_key", insert("upload_sessions", SESSION, idempotency_key="'once'")),
    *(("upload_sessions_idempotency_key_form", insert("upload_sessions", SESSION, idempotency_key=key))
      for key in ["''", "repeat('x', 256)"]),
    ("upload_sessions_wrapped_key_length",
     insert("upload_sessions", SESSION, wrapped_key="'short'", kek_version="1")),
    ("upload_sessions_kek_version_fkey",
     insert("upload_sessions", SESSION, wrapped_key=WRAPPED, kek_version="2")),
    ("upload_sessions_kek_version_positive",
     insert("upload_sessions", SESSION, wrapped_key=WRAPPED, kek_version="0")),
    *(("upload_sessions_key_has_version", insert("upload_sessions", SESSION, **key))
      for key in [{"wrapped_key": WRAPPED}, {"kek_version": "1"}]),
    ("upload_sessions_complete_has_length", insert("upload_sessions", COMPLETE, length_deferred="true")),
    *(("upload_sessions_tus_metadata_form", insert("upload_sessions", SESSION, tus_metadata=header))
      for header in ["''", "' '", "'a,'", "'a b c'", "'a Ü'", "'ü YQ=='", "'a YQ==' || chr(13) || chr(10) || 'x: y'",
                     "repeat('x', 8193)"]),
    ("upload_sessions_concat_kind_known", insert("upload_sessions", SESSION, concat_kind="'whole'")),
    *(("upload_sessions_final_has_parts", insert("upload_sessions", FINAL, **change))
      for change in [{"concat_parts": "NULL"}, {"concat_parts": "'{}'"}, {"concat_kind": "NULL"},
                     {"concat_parts": f"array_fill({UPLOAD}::uuid, ARRAY[1001])"}]),
    ("upload_sessions_partial_stays_open", insert("upload_sessions", COMPLETE, concat_kind="'partial'")),
    ("upload_sessions_concat_into_of_partial", insert("upload_sessions", SESSION, concat_into=UPLOAD)),
    ("upload_sessions_concat_into_fkey", insert("upload_sessions", PARTIAL, concat_into=NOBODY)),
    ("upload_sessions_expire_after_creation", insert("upload_sessions", SESSION, expires_at="now()")),
    # jobs
    *(("job_type_form", insert("processing_jobs", JOB, job_type=name))
      for name in ["''", "'Extract'", "'0extract'", "'_extract'", "'extract text'", "'täglich'", "repeat('x', 64)"]),
    *(("job_payload_form", insert("processing_jobs", JOB, payload=value)) for value in ["'[]'", "'1'", "'null'"]),
    *(("job_key_form", insert("processing_jobs", JOB, idempotency_key=key)) for key in ["''", "repeat('x', 256)"]),
    *(("job_key_form", insert("processing_jobs", JOB, queued_key=key)) for key in ["''", "repeat('x', 256)"]),
    ("job_traceparent_form", insert("processing_jobs", JOB, traceparent="repeat('x', 256)")),
    ("job_status_known", insert("processing_jobs", JOB, status="'lost'")),
    ("job_attempts_not_negative", insert("processing_jobs", JOB, attempts="-1")),
    ("job_attempts_at_least_one", insert("processing_jobs", JOB, max_attempts="0")),
    *(("job_progress_percent", insert("processing_jobs", JOB, progress=percent)) for percent in ["-1", "101"]),
    # settings
    ("tenant_settings_pkey", "INSERT INTO tenant_settings DEFAULT VALUES"),
    *((f"tenant_settings_{rule}", f"UPDATE tenant_settings SET {change}") for rule, change in [
        ("one_row", "one = false"),
        ("version_positive", "version = 0"),
        ("duplicates_known", "duplicates = 'ignore'"),
        ("types_form", "allowed_types = '{}'"),
        ("types_form", "allowed_types = '{pdf}'"),
        ("types_form", "allowed_types = '{image/*,*/*}'"),
        ("types_form", "allowed_types = '{Image/PNG}'"),
        ("types_form", "allowed_types = '{image/png,NULL}'"),
        ("types_form", "allowed_types = array_fill('image/png'::text, ARRAY[201])"),
        ("max_upload_positive", "max_upload_bytes = 0"),
        ("quota_not_negative", "quota_bytes = -1"),
        ("trash_days_range", "trash_days = -1"),
        ("trash_days_range", "trash_days = 3651"),
        ("updated_by_fkey", f"updated_by = {NOBODY}"),
    ]),
    # usage and texts
    # checks of the object store
    ("store_checks_scope_known", insert("store_checks", CHECK, scope="'some'")),
    ("store_checks_phase_known", insert("store_checks", CHECK, phase="'begun'")),
    ("store_checks_finished", insert("store_checks", CHECK, phase="'finished'")),
    ("store_checks_finished", insert("store_checks", CHECK, finished_at="now()")),
    ("store_checks_counts_not_negative", insert("store_checks", CHECK, missing="-1")),
    ("store_checks_one_unfinished", insert("store_checks", CHECK, scope="'all'")),
    ("store_findings_pkey", insert("store_findings", FINDING)),
    ("store_findings_check_fkey", insert("store_findings", FINDING, check_id=NOBODY)),
    ("store_findings_kind_known", insert("store_findings", FINDING, kind="'dust'")),
    ("stored_objects_damage_known", "UPDATE stored_objects SET checked_at = now(), damage = 'dust'"),
    ("stored_objects_damage_was_checked", "UPDATE stored_objects SET damage = 'missing'"),
    ("storage_usage_pkey", "INSERT INTO storage_usage (used_bytes) VALUES (0)"),
    ("storage_usage_one_row", "UPDATE storage_usage SET one = false"),
    ("usage_outbox_metric_form", insert("usage_outbox", USAGE, metric="'Bytes stored'")),
    ("document_texts_pkey", insert("document_texts", PART, part="0")),
    ("document_texts_revision_fkey", insert("document_texts", PART, revision_id=NOBODY)),
    ("document_texts_part_not_negative", insert("document_texts", PART, part="-1")),
    ("document_texts_content_length", insert("document_texts", PART, content="repeat('x', 24001)")),
]  # fmt: skip

# The target of composite foreign keys: (id, something) cannot be taken twice where id alone is the key.
IMPLIED_BY_THE_PRIMARY_KEY = {"file_revisions_of_document_key", "metadata_fields_typed_key"}


@pytest.fixture
async def conn(tenant_owner_conn: Connection) -> Connection:
    """A tenant database with a row in most tables."""
    await tenant_owner_conn.execute(";".join(PRESENT))
    return tenant_owner_conn


@pytest.mark.parametrize(("constraint", "statement"), REFUSED)
async def test_a_row_that_breaks_a_rule_is_refused(conn: Connection, constraint: str, statement: str) -> None:
    assert await refused_by(conn, statement) == constraint


@pytest.mark.parametrize("statement", VALID)
async def test_a_row_that_keeps_the_rules_is_taken(conn: Connection, statement: str) -> None:
    assert await refused_by(conn, statement) is None


async def test_each_rule_of_the_tenant_schema_is_tried_above(tenant_owner_conn: Connection) -> None:
    tried = {constraint for constraint, _ in REFUSED}

    assert await rules(tenant_owner_conn) - tried - IMPLIED_BY_THE_PRIMARY_KEY == set()
