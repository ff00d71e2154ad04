"""Every method and path of dms-ingest, whom it serves, and the function that answers."""

from http import HTTPStatus

from dms_ingest.byte_ranges import RangeNotSatisfiable
from dms_ingest.completing import DigestMismatch, UploadIncomplete
from dms_ingest.documents import DocumentNotFound, VersionChanged
from dms_ingest.downloads import KeyMissing, ObjectMissing
from dms_ingest.folders import FolderCycle, FolderNameTaken, FolderNotEmpty, FolderNotFound, FolderTooDeep
from dms_ingest.links import LinkRefused
from dms_ingest.media_types import ContentMismatch, TypeNotAllowed
from dms_ingest.metadata import (
    FieldNameTaken,
    FieldNotFound,
    OptionsRefused,
    ValueNotFound,
    ValueRefused,
)
from dms_ingest.names import NameRefused
from dms_ingest.processing import NotFailed
from dms_ingest.purge import NotInTrash
from dms_ingest.receiving import BeyondEnd, LineSilent, OffsetBeyondEnd, StagingFull, UploadCompleting
from dms_ingest.revisions import RevisionNotFound
from dms_ingest.search import SearchTooSlow
from dms_ingest.tags import TagNameTaken, TagNotFound
from dms_ingest.texts import TextNotThere
from dms_ingest.upload_sessions import UploadClosed, UploadNotFound
from dms_ingest.views import documents, downloads, folders, links, metadata, revisions, search, tags, texts, uploads
from nexarch.auth import Access
from nexarch.crypto.envelope import SealBroken
from nexarch.crypto.layout import ObjectDamaged
from nexarch.errors import InsufficientStorage, UnsupportedType
from nexarch.idempotency import BadIdempotencyKey, IdempotencyKeyReused
from nexarch.pages import BadCursor
from nexarch.routing import Route

_BYTES = "application/octet-stream"
_DOWNLOAD_ERRORS = [RevisionNotFound, RangeNotSatisfiable, ObjectMissing, KeyMissing, ObjectDamaged, SealBroken]
_FOLDER_ERRORS = [FolderNotFound, NameRefused, FolderNameTaken, FolderTooDeep]

UPLOADS = [
    Route(
        "POST",
        "/v1/uploads",
        uploads.create,
        Access.EDITOR,
        answer=uploads.Upload,
        status=HTTPStatus.CREATED,
        errors=[
            TypeNotAllowed,
            uploads.FileTooLarge,
            NameRefused,
            FolderNotFound,
            DocumentNotFound,
            IdempotencyKeyReused,
            BadIdempotencyKey,
        ],
    ),
    Route("GET", "/v1/uploads/{id}", uploads.get, Access.EDITOR, answer=uploads.Upload, errors=[UploadNotFound]),
    Route(
        "PUT",
        "/v1/uploads/{id}/content",
        uploads.put_content,
        Access.EDITOR,
        answer=uploads.Upload,
        takes=_BYTES,
        errors=[
            UploadNotFound,
            UploadClosed,
            UploadCompleting,
            OffsetBeyondEnd,
            BeyondEnd,
            LineSilent,
            UnsupportedType,
            StagingFull,
        ],
    ),
    Route(
        "POST",
        "/v1/uploads/{id}/complete",
        uploads.complete,
        Access.EDITOR,
        answer=documents.DocumentAnswer,
        errors=[
            UploadNotFound,
            UploadIncomplete,
            DigestMismatch,
            ContentMismatch,
            UploadCompleting,
            DocumentNotFound,
            FolderNotFound,
            InsufficientStorage,
        ],
    ),
    Route(
        "DELETE",
        "/v1/uploads/{id}",
        uploads.delete,
        Access.EDITOR,
        status=HTTPStatus.NO_CONTENT,
        errors=[UploadNotFound, UploadClosed, UploadCompleting],
    ),
]

DOCUMENTS = [
    Route(
        "GET",
        "/v1/documents",
        documents.list_documents,
        Access.VIEWER,
        answer=documents.DocumentPage,
        errors=[BadCursor],
    ),
    Route(
        "GET",
        "/v1/documents/{id}",
        documents.get,
        Access.VIEWER,
        answer=documents.DocumentAnswer,
        errors=[DocumentNotFound],
    ),
    Route(
        "PATCH",
        "/v1/documents/{id}",
        documents.change,
        Access.EDITOR,
        answer=documents.DocumentAnswer,
        errors=[DocumentNotFound, FolderNotFound, NameRefused, VersionChanged],
    ),
    Route(
        "DELETE",
        "/v1/documents/{id}",
        documents.delete,
        Access.EDITOR,
        status=HTTPStatus.NO_CONTENT,
        errors=[DocumentNotFound, VersionChanged],
    ),
    Route(
        "GET",
        "/v1/documents/{id}/text",
        texts.get,
        Access.VIEWER,
        media="text/plain",
        errors=[DocumentNotFound, TextNotThere],
    ),
    Route(
        "POST",
        "/v1/documents/{id}/purge",
        documents.remove,
        Access.ADMIN,
        status=HTTPStatus.NO_CONTENT,
        errors=[DocumentNotFound, NotInTrash],
    ),
    Route(
        "POST",
        "/v1/documents/{id}/retry",
        documents.retry,
        Access.EDITOR,
        answer=documents.DocumentAnswer,
        status=HTTPStatus.ACCEPTED,
        errors=[DocumentNotFound, NotFailed],
    ),
    Route(
        "GET",
        "/v1/documents/{id}/revisions",
        revisions.list_revisions,
        Access.VIEWER,
        answer=revisions.RevisionPage,
        errors=[DocumentNotFound, BadCursor],
    ),
]

DOWNLOADS = [
    Route("GET", "/v1/documents/{id}/content", downloads.current, Access.VIEWER, media=_BYTES, errors=_DOWNLOAD_ERRORS),
    Route(
        "GET",
        "/v1/documents/{id}/revisions/{number}/content",
        downloads.of_revision,
        Access.VIEWER,
        media=_BYTES,
        errors=_DOWNLOAD_ERRORS,
    ),
    Route(
        "POST",
        "/v1/documents/{id}/links",
        links.create,
        Access.EDITOR,
        answer=links.LinkAnswer,
        status=HTTPStatus.CREATED,
        errors=[RevisionNotFound],
    ),
    Route(
        "GET",
        "/v1/links/{tenant}/{document}/{revision}",
        links.follow,
        Access.PUBLIC,
        media=_BYTES,
        errors=[LinkRefused, *_DOWNLOAD_ERRORS],
    ),
]

SEARCH = [
    Route("GET", "/v1/search", search.find, Access.VIEWER, answer=search.HitPage, errors=[BadCursor, SearchTooSlow]),
]

FOLDERS = [
    Route(
        "POST",
        "/v1/folders",
        folders.create,
        Access.EDITOR,
        answer=folders.FolderAnswer,
        status=HTTPStatus.CREATED,
        errors=_FOLDER_ERRORS,
    ),
    Route(
        "GET",
        "/v1/folders",
        folders.list_folders,
        Access.VIEWER,
        answer=folders.FolderPage,
        errors=[FolderNotFound, BadCursor],
    ),
    Route("GET", "/v1/folders/{id}", folders.get, Access.VIEWER, answer=folders.FolderAnswer, errors=[FolderNotFound]),
    Route(
        "PATCH",
        "/v1/folders/{id}",
        folders.change,
        Access.EDITOR,
        answer=folders.FolderAnswer,
        errors=[*_FOLDER_ERRORS, FolderCycle],
    ),
    Route(
        "DELETE",
        "/v1/folders/{id}",
        folders.delete,
        Access.EDITOR,
        status=HTTPStatus.NO_CONTENT,
        errors=[FolderNotFound, FolderNotEmpty],
    ),
]

TAGS = [
    Route(
        "POST",
        "/v1/tags",
        tags.create,
        Access.EDITOR,
        answer=tags.TagAnswer,
        status=HTTPStatus.CREATED,
        errors=[NameRefused, TagNameTaken],
    ),
    Route("GET", "/v1/tags", tags.list_tags, Access.VIEWER, answer=tags.TagPage, errors=[BadCursor]),
    Route("DELETE", "/v1/tags/{id}", tags.delete, Access.EDITOR, status=HTTPStatus.NO_CONTENT, errors=[TagNotFound]),
    Route(
        "PUT",
        "/v1/documents/{id}/tags/{tag_id}",
        tags.assign,
        Access.EDITOR,
        status=HTTPStatus.NO_CONTENT,
        errors=[DocumentNotFound, TagNotFound],
    ),
    Route(
        "DELETE",
        "/v1/documents/{id}/tags/{tag_id}",
        tags.unassign,
        Access.EDITOR,
        status=HTTPStatus.NO_CONTENT,
        errors=[DocumentNotFound, TagNotFound],
    ),
]

METADATA = [
    Route(
        "POST",
        "/v1/metadata-fields",
        metadata.create_field,
        Access.ADMIN,
        answer=metadata.FieldAnswer,
        status=HTTPStatus.CREATED,
        errors=[NameRefused, FieldNameTaken, OptionsRefused],
    ),
    Route(
        "GET",
        "/v1/metadata-fields",
        metadata.list_fields,
        Access.VIEWER,
        answer=metadata.FieldPage,
        errors=[BadCursor],
    ),
    Route(
        "GET",
        "/v1/documents/{id}/metadata",
        metadata.list_values,
        Access.VIEWER,
        answer=metadata.ValueList,
        errors=[DocumentNotFound],
    ),
    Route(
        "PUT",
        "/v1/documents/{id}/metadata/{field_id}",
        metadata.set_value,
        Access.EDITOR,
        answer=metadata.ValueAnswer,
        errors=[DocumentNotFound, FieldNotFound, ValueRefused],
    ),
    Route(
        "DELETE",
        "/v1/documents/{id}/metadata/{field_id}",
        metadata.clear_value,
        Access.EDITOR,
        status=HTTPStatus.NO_CONTENT,
        errors=[DocumentNotFound, ValueNotFound],
    ),
]

ROUTES: list[Route] = [*UPLOADS, *DOCUMENTS, *DOWNLOADS, *SEARCH, *FOLDERS, *TAGS, *METADATA]
