"""The OpenAPI 3.1 document of a service, made from its route table (https://spec.openapis.org/oas/v3.1.0)."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import TypeAdapter

from nexarch.auth import OPEN, Access
from nexarch.errors import Forbidden, NexarchError, Unauthorized
from nexarch.problems import MEDIA_TYPE, InvalidBody
from nexarch.routing import SMALL_BODY, Route
from nexarch.seats import AtCapacity

Document = dict[str, Any]

_REF = "#/components/schemas/{model}"
_SCHEMES: dict[Access, tuple[str, Document]] = {
    Access.OPERATOR: ("operator", {"type": "http", "scheme": "bearer", "description": "An operator's token"}),
    Access.SERVICE: ("service", {"type": "http", "scheme": "basic", "description": "Client id and secret"}),
    Access.VIEWER: ("user", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}),
}
_USERS = Access.VIEWER | Access.EDITOR | Access.ADMIN
_PROBLEM: Document = {
    "type": "object",
    "description": "RFC 9457; docs/problems.md lists the types and their members",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "request_id": {"type": "string"},
    },
}


def document(title: str, version: str, description: str, routes: Sequence[Route]) -> Document:
    """Describe every route of the table; `routes` may name any pydantic type as body, query or answer."""
    schemas, components = _schemas(routes)
    paths: dict[str, Document] = {}
    for route in routes:
        paths.setdefault(_plain(route.path), {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": description},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components | {"Problem": _PROBLEM},
            "securitySchemes": dict(_SCHEMES.values()),
        },
    }


_Mode = Literal["validation", "serialization"]
_Schemas = dict[tuple[int, str], Document]


def _schemas(routes: Iterable[Route]) -> tuple[_Schemas, Document]:
    """JSON schemas of all inputs and answers, by (identity of the route, part), with one set of definitions."""
    inputs: list[tuple[tuple[int, str], _Mode, TypeAdapter[Any]]] = []
    for route in routes:
        inputs += [((id(route), part), "validation", adapter) for part, adapter in route.inputs.items()]
        if route.answer is not None:
            inputs.append(((id(route), "answer"), "serialization", TypeAdapter(route.answer)))
    by_key, definitions = TypeAdapter.json_schemas(inputs, ref_template=_REF)
    return {key: schema for (key, _), schema in by_key.items()}, definitions.get("$defs", {})


def _operation(route: Route, schemas: _Schemas) -> Document:
    words = (route.handler.__doc__ or route.handler.__name__).strip()
    summary, _, description = words.partition("\n")
    operation: Document = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{_plain(route.path)}").rstrip("_"),
        "summary": re.sub(r"^`[^`]+`: ", "", summary).rstrip("."),
        "parameters": _path_parameters(route.path) + _query_parameters(route),
        "responses": _responses(route, schemas),
        "security": _security(route.access),
    }
    if description.strip():
        operation["description"] = description.strip()
    if (body := schemas.get((id(route), "body"))) is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    elif route.takes is not None:
        operation["requestBody"] = {"required": True, "content": {route.takes: {}}}
    return operation


def _responses(route: Route, schemas: _Schemas) -> Document:
    good: Document = {"description": route.status.phrase}
    if (answer := schemas.get((id(route), "answer"))) is not None:
        good["content"] = {"application/json": {"schema": answer}}
    elif route.media is not None:
        good["content"] = {route.media: {}}
    responses: dict[str, Document] = {str(int(route.status)): good}
    for status, errors in _by_status(_all_errors(route)).items():
        responses[str(int(status))] = {
            "description": ", ".join(f"`{error.code}`" for error in errors),
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return responses


def _all_errors(route: Route) -> list[type[NexarchError]]:
    errors = list(route.errors)
    if not route.access & Access.PUBLIC:
        errors.append(Unauthorized)
    if not route.access & (OPEN | Access.INTERNAL):
        errors.append(Forbidden)
    if route.inputs:
        errors.append(InvalidBody)
    if "body" in route.inputs and route.max_body > SMALL_BODY:
        errors.append(AtCapacity)
    return errors


def _by_status(errors: Iterable[type[NexarchError]]) -> dict[int, list[type[NexarchError]]]:
    grouped: dict[int, list[type[NexarchError]]] = {}
    for error in sorted(set(errors), key=lambda error: (error.status, error.code)):
        grouped.setdefault(error.status, []).append(error)
    return grouped


def _security(access: Access) -> list[Document]:
    if access & OPEN:
        return []
    if access & Access.INTERNAL:  # none on the internal listener, any on a published one
        return [{}, *({name: []} for name, _ in _SCHEMES.values())]
    kinds = [_SCHEMES[kind][0] for kind in (Access.OPERATOR, Access.SERVICE) if access & kind]
    if access & _USERS:
        kinds.append("user")
    return [{kind: []} for kind in kinds]


def _path_parameters(path: str) -> list[Document]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)(?::[^{}]*)?}", path)
    ]


def _query_parameters(route: Route) -> list[Document]:
    """One parameter for each field of the query's model."""
    if (query := route.inputs.get("query")) is None:
        return []
    schema = query.json_schema(ref_template=_REF)
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema["properties"].items()
    ]


def _plain(path: str) -> str:
    return re.sub(r"{(\w+):[^{}]*}", r"{\1}", path)
