"""Every method and path of dms-ingest on one page: whom it serves, and the function that answers."""

from http import HTTPStatus

from dms_ingest.admission import FileTooLarge
from dms_ingest.bulk import BulkRefused
from dms_ingest.byte_ranges import RangeNotSatisfiable
from dms_ingest.checksums import ChecksumMismatch
from dms_ingest.completing import UploadIncomplete
from dms_ingest.concatenating import PartsUsed
from dms_ingest.contents import NothingInFile
from dms_ingest.copies import AlreadyCurrent
from dms_ingest.documents import DocumentNotFound, VersionChanged
from dms_ingest.downloads import KeyMissing, ObjectMissing
from dms_ingest.duplicates import DuplicateFile
from dms_ingest.field_values import ValueRefused
from dms_ingest.folders import FolderCycle, FolderNameTaken, FolderNotEmpty, FolderNotFound, FolderTooDeep
from dms_ingest.intake import BeyondEnd
from dms_ingest.line import LineSilent
from dms_ingest.links import LinkRefused
from dms_ingest.media_types import ContentMismatch, TypeNotAllowed
from dms_ingest.metadata import (
    FieldInUse,
    FieldNameTaken,
    FieldNotFound,
    OptionInUse,
    OptionsRefused,
    ValueNotFound,
)
from dms_ingest.names import NameRefused
from dms_ingest.processing import NotFailed
from dms_ingest.purge import NotInTrash
from dms_ingest.receiving import (
    OffsetBeyondEnd,
    UploadCompleting,
    UploadLocked,
    UploadTakenOver,
)
from dms_ingest.revisions import RevisionNotFound, WrappingOutdated
from dms_ingest.search import SearchTooSlow
from dms_ingest.slots import UploadScattered
from dms_ingest.staged_reading import DigestMismatch
from dms_ingest.staging import StagingFull
from dms_ingest.tags import TagNameTaken, TagNotFound
from dms_ingest.tenant_settings import SettingsChanged
from dms_ingest.texts import TextNotThere
from dms_ingest.tus import DuplicateUpload, FinalUpload, OffsetConflict
from dms_ingest.tus_headers import CHUNK_TYPE, HeaderRefused, VersionUnknown
from dms_ingest.upload_sessions import LengthFixed, UploadClosed, UploadNotFound
from dms_ingest.views import (
    audit,
    bulk,
    documents,
    downloads,
    folders,
    links,
    metadata,
    revisions,
    search,
    store_checks,
    tags,
    tenant_settings,
    texts,
    trash,
    tus,
    uploads,
    usage,
)
from nexarch.auth import Access
from nexarch.core_client import KeyShredded
from nexarch.crypto.envelope import SealBroken
from nexarch.crypto.layout import ObjectDamaged
from nexarch.errors import InsufficientStorage, Unauthorized, UnsupportedType
from nexarch.idempotency import BadIdempotencyKey, IdempotencyKeyReused
from nexarch.operators import TenantRequired
from nexarch.pages import BadCursor
from nexarch.problems import InvalidBody
from nexarch.routing import Route
from nexarch.seats import AtCapacity
from nexarch.store_checks import StoreCheckNotFound
from nexarch.usage import QuotaExceeded

_VIEWER, _EDITOR, _ADMIN, _PUBLIC = Access.VIEWER, Access.EDITOR, Access.ADMIN, Access.PUBLIC
_RUNS_IT = Access.ADMIN | Access.OPERATOR
_CREATED, _ACCEPTED, _NO_CONTENT = HTTPStatus.CREATED, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT
_BYTES = "application/octet-stream"
_KEY_ERRORS = [WrappingOutdated, KeyMissing, KeyShredded, SealBroken]
_DOWNLOAD_ERRORS = [RevisionNotFound, RangeNotSatisfiable, ObjectMissing, ObjectDamaged, AtCapacity, *_KEY_ERRORS]
_FOLDER_ERRORS = [FolderNotFound, NameRefused, FolderNameTaken, FolderTooDeep]
_COMPLETE_ERRORS = [
    DigestMismatch,
    ContentMismatch,
    TypeNotAllowed,
    NothingInFile,
    DuplicateUpload,
    FolderNotFound,
    DocumentNotFound,
]
_LOOK_ERRORS = [VersionUnknown, HeaderRefused, UploadNotFound, UploadLocked, *_COMPLETE_ERRORS]
_CHUNK_ERRORS = [
    VersionUnknown,
    HeaderRefused,
    UnsupportedType,
    ChecksumMismatch,
    BeyondEnd,
    LineSilent,
    StagingFull,
    UploadLocked,
    UploadTakenOver,
    AtCapacity,
    QuotaExceeded,
    InsufficientStorage,
    *_COMPLETE_ERRORS,
]
_APPEND_ERRORS = [UploadNotFound, OffsetConflict, LengthFixed, FileTooLarge, FinalUpload, *_CHUNK_ERRORS]
_END_ERRORS = [VersionUnknown, HeaderRefused, UploadNotFound, UploadLocked]

# fmt: off
ROUTES = [
    Route("POST", "/v1/uploads", uploads.create, _EDITOR, uploads.Upload, _CREATED,
          errors=[TypeNotAllowed, FileTooLarge, DuplicateFile, QuotaExceeded, NameRefused, FolderNotFound,
                  DocumentNotFound, IdempotencyKeyReused, BadIdempotencyKey]),
    Route("GET", "/v1/uploads/{id}", uploads.get, _EDITOR, uploads.Upload, errors=[UploadNotFound]),
    Route("PUT", "/v1/uploads/{id}/content", uploads.put_content, _EDITOR, uploads.Upload, takes=_BYTES,
          errors=[UploadNotFound, UploadClosed, UploadCompleting, UploadScattered, OffsetBeyondEnd, BeyondEnd,
                  LineSilent, UnsupportedType, StagingFull, AtCapacity]),
    Route("POST", "/v1/uploads/{id}/complete", uploads.complete, _EDITOR, documents.DocumentAnswer,
          errors=[UploadNotFound, UploadIncomplete, NothingInFile, DigestMismatch, ContentMismatch, TypeNotAllowed,
                  FileTooLarge, DuplicateFile, QuotaExceeded, UploadCompleting, DocumentNotFound, FolderNotFound,
                  InsufficientStorage]),
    Route("DELETE", "/v1/uploads/{id}", uploads.delete, _EDITOR, None, _NO_CONTENT,
          errors=[UploadNotFound, UploadClosed, UploadCompleting]),

    Route("OPTIONS", "/files/", tus.options, _PUBLIC, None, _NO_CONTENT),
    Route("POST", "/files/", tus.create, _EDITOR, None, _CREATED, takes=CHUNK_TYPE,
          errors=[TypeNotAllowed, FileTooLarge, NameRefused, InvalidBody, UploadNotFound, UploadIncomplete, PartsUsed,
                  *_CHUNK_ERRORS]),
    Route("OPTIONS", "/files/{id}", tus.options, _PUBLIC, None, _NO_CONTENT),
    Route("HEAD", "/files/{id}", tus.look, _EDITOR, errors=_LOOK_ERRORS),
    Route("PATCH", "/files/{id}", tus.append, _EDITOR, None, _NO_CONTENT, takes=CHUNK_TYPE, errors=_APPEND_ERRORS),
    Route("DELETE", "/files/{id}", tus.end, _EDITOR, None, _NO_CONTENT, errors=_END_ERRORS),
    Route("POST", "/files/{id}", tus.overridden, _EDITOR, None, _NO_CONTENT, takes=CHUNK_TYPE, errors=_APPEND_ERRORS),

    Route("GET", "/v1/documents", documents.list_documents, _VIEWER, documents.DocumentPage, errors=[BadCursor]),
    Route("POST", "/v1/documents/bulk", bulk.change, _EDITOR, bulk.BulkAnswer, max_body=8 << 20, errors=[BulkRefused]),
    Route("GET", "/v1/documents/{id}", documents.get, _VIEWER, documents.DocumentAnswer, errors=[DocumentNotFound]),
    Route("PATCH", "/v1/documents/{id}", documents.change, _EDITOR, documents.DocumentAnswer,
          errors=[DocumentNotFound, FolderNotFound, NameRefused, VersionChanged]),
    Route("DELETE", "/v1/documents/{id}", documents.delete, _EDITOR, None, _NO_CONTENT,
          errors=[DocumentNotFound, VersionChanged]),
    Route("GET", "/v1/documents/{id}/text", texts.get, _VIEWER, media="text/plain",
          errors=[DocumentNotFound, TextNotThere, AtCapacity]),
    Route("GET", "/v1/trash", trash.list_trash, _VIEWER, trash.TrashPage, errors=[BadCursor]),
    Route("POST", "/v1/documents/{id}/restore", trash.restore, _EDITOR, trash.RestoredDocument,
          errors=[DocumentNotFound, NotInTrash]),
    Route("POST", "/v1/documents/{id}/purge", documents.remove, _ADMIN, None, _NO_CONTENT,
          errors=[DocumentNotFound, NotInTrash]),
    Route("POST", "/v1/documents/{id}/retry", documents.retry, _EDITOR, documents.DocumentAnswer, _ACCEPTED,
          errors=[DocumentNotFound, NotFailed]),
    Route("GET", "/v1/documents/{id}/revisions", revisions.list_revisions, _VIEWER, revisions.RevisionPage,
          errors=[DocumentNotFound, BadCursor]),
    Route("POST", "/v1/documents/{id}/revisions/{number}/restore", revisions.restore, _EDITOR,
          revisions.RevisionAnswer, _CREATED,
          errors=[RevisionNotFound, DocumentNotFound, AlreadyCurrent, *_KEY_ERRORS]),

    Route("GET", "/v1/documents/{id}/content", downloads.current, _VIEWER, media=_BYTES, errors=_DOWNLOAD_ERRORS),
    Route("GET", "/v1/documents/{id}/revisions/{number}/content", downloads.of_revision, _VIEWER, media=_BYTES,
          errors=_DOWNLOAD_ERRORS),
    Route("POST", "/v1/documents/{id}/links", links.create, _EDITOR, links.LinkAnswer, _CREATED,
          errors=[RevisionNotFound]),
    Route("POST", "/v1/documents/{id}/links/revoke", links.revoke, _EDITOR, None, _NO_CONTENT, [DocumentNotFound]),
    Route("GET", "/v1/links/{tenant}/{document}/{revision}", links.follow, _PUBLIC, media=_BYTES,
          errors=[Unauthorized, LinkRefused, *_DOWNLOAD_ERRORS]),

    Route("GET", "/v1/audit", audit.list_events, _ADMIN, audit.AuditPage, errors=[BadCursor]),

    Route("GET", "/v1/search", search.find, _VIEWER, search.HitPage, errors=[BadCursor, SearchTooSlow]),

    Route("POST", "/v1/folders", folders.create, _EDITOR, folders.FolderAnswer, _CREATED, errors=_FOLDER_ERRORS),
    Route("GET", "/v1/folders", folders.list_folders, _VIEWER, folders.FolderPage, errors=[FolderNotFound, BadCursor]),
    Route("GET", "/v1/folders/{id}", folders.get, _VIEWER, folders.FolderAnswer, errors=[FolderNotFound]),
    Route("PATCH", "/v1/folders/{id}", folders.change, _EDITOR, folders.FolderAnswer,
          errors=[*_FOLDER_ERRORS, FolderCycle]),
    Route("DELETE", "/v1/folders/{id}", folders.delete, _EDITOR, None, _NO_CONTENT,
          errors=[FolderNotFound, FolderNotEmpty]),

    Route("POST", "/v1/tags", tags.create, _EDITOR, tags.TagAnswer, _CREATED, errors=[NameRefused, TagNameTaken]),
    Route("GET", "/v1/tags", tags.list_tags, _VIEWER, tags.TagPage, errors=[BadCursor]),
    Route("PATCH", "/v1/tags/{id}", tags.change, _EDITOR, tags.TagAnswer,
          errors=[TagNotFound, NameRefused, TagNameTaken]),
    Route("DELETE", "/v1/tags/{id}", tags.delete, _EDITOR, None, _NO_CONTENT, errors=[TagNotFound]),
    Route("PUT", "/v1/documents/{id}/tags/{tag_id}", tags.assign, _EDITOR, None, _NO_CONTENT,
          errors=[DocumentNotFound, TagNotFound]),
    Route("DELETE", "/v1/documents/{id}/tags/{tag_id}", tags.unassign, _EDITOR, None, _NO_CONTENT,
          errors=[DocumentNotFound, TagNotFound]),

    Route("POST", "/v1/metadata-fields", metadata.create_field, _ADMIN, metadata.FieldAnswer, _CREATED,
          errors=[NameRefused, FieldNameTaken, OptionsRefused]),
    Route("GET", "/v1/metadata-fields", metadata.list_fields, _VIEWER, metadata.FieldPage, errors=[BadCursor]),
    Route("PATCH", "/v1/metadata-fields/{id}", metadata.change_field, _ADMIN, metadata.FieldAnswer,
          errors=[FieldNotFound, NameRefused, FieldNameTaken, OptionsRefused, OptionInUse]),
    Route("DELETE", "/v1/metadata-fields/{id}", metadata.delete_field, _ADMIN, None, _NO_CONTENT,
          errors=[FieldNotFound, FieldInUse]),
    Route("GET", "/v1/documents/{id}/metadata", metadata.list_values, _VIEWER, metadata.ValueList,
          errors=[DocumentNotFound]),
    Route("PUT", "/v1/documents/{id}/metadata/{field_id}", metadata.set_value, _EDITOR, metadata.ValueAnswer,
          errors=[DocumentNotFound, FieldNotFound, ValueRefused]),
    Route("DELETE", "/v1/documents/{id}/metadata/{field_id}", metadata.clear_value, _EDITOR, None, _NO_CONTENT,
          errors=[DocumentNotFound, ValueNotFound]),

    Route("GET", "/v1/settings", tenant_settings.get, _ADMIN, tenant_settings.SettingsAnswer),
    Route("PATCH", "/v1/settings", tenant_settings.change, _ADMIN, tenant_settings.SettingsAnswer,
          errors=[SettingsChanged]),
    Route("GET", "/v1/usage", usage.get, _VIEWER, usage.UsageAnswer),
    Route("POST", "/v1/usage/recount", usage.recount, Access.OPERATOR, usage.RecountAnswer, errors=[TenantRequired]),

    Route("POST", "/v1/store-checks", store_checks.create, _RUNS_IT, store_checks.CheckAnswer, _ACCEPTED,
          errors=[TenantRequired]),
    Route("GET", "/v1/store-checks", store_checks.list_checks, _RUNS_IT, store_checks.CheckPage,
          errors=[TenantRequired, BadCursor]),
    Route("GET", "/v1/store-checks/{id}", store_checks.get, _RUNS_IT, store_checks.CheckDetails,
          errors=[TenantRequired, StoreCheckNotFound]),
]
# fmt: on
