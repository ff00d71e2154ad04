"""The page at /docs: the OpenAPI document for people. Made on the server, without a script or a foreign host."""

import re
from html import escape
from typing import Any

from aiohttp import web

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }
h1 { margin-bottom: 0 }
details { border: 1px solid #d0d0d0; border-radius: .4rem; margin: .4rem 0; padding: .4rem .8rem; }
summary { cursor: pointer }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
.method { display: inline-block; width: 4.5rem; font-weight: 600; }
.who { color: #767676; float: right }
table { border-collapse: collapse }
td { padding: .1rem .8rem .1rem 0; vertical-align: top; }
@media (prefers-color-scheme: dark) { body { background: #16181b; color: #e6e6e6 } a { color: #9cc2ff } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"


def page(document: dict[str, Any]) -> web.Response:
    """Write the document as one HTML page."""
    info = document["info"]
    operations = [
        _operation(path, method, operation)
        for path, item in sorted(document["paths"].items(), key=_own_routes_first)
        for method, operation in item.items()
    ]
    schemas = [
        f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>{_schema(schema)}</details>"
        for name, schema in sorted(document["components"]["schemas"].items())
    ]
    html = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(info["title"])}</title><style>{_STYLE}</style></head>
<body><h1>{escape(info["title"])} {escape(info["version"])}</h1>
<p>{escape(info["description"])} For programs: <a href="openapi.json"><code>openapi.json</code></a>.</p>
{"".join(operations)}<h2>Models</h2>{"".join(schemas)}</body></html>"""
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
    return web.Response(text=html, content_type="text/html", headers=headers)


def _own_routes_first(entry: tuple[str, Any]) -> tuple[bool, str]:
    """What the service is for, then what every service has: health, metrics, this page."""
    path, _ = entry
    return (not path.startswith("/v1/"), path)


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    who = ", ".join(kind for entry in operation["security"] for kind in entry) or "anyone"
    body = operation.get("requestBody", {}).get("content", {})
    parts = [f"<p>{_text(operation['description'])}</p>"] if "description" in operation else []
    if operation["parameters"]:
        rows = "".join(
            f"<tr><td><code>{escape(p['name'])}</code></td><td>{p['in']}</td><td>{_type(p['schema'])}</td>"
            f"<td>{_text(p.get('description', ''))}</td></tr>"
            for p in operation["parameters"]
        )
        parts.append(f"<h4>Parameters</h4><table>{rows}</table>")
    parts += [f"<h4>Body: {escape(media)}</h4>{_schema(content.get('schema'))}" for media, content in body.items()]
    parts.append("<h4>Answers</h4>")
    for status, response in operation["responses"].items():
        parts.append(f"<p><b>{status}</b> {_text(response['description'])}</p>")
        if status.startswith("2"):
            parts += [_schema(content.get("schema")) for content in response.get("content", {}).values()]
    return (
        f"<details><summary><span class='who'>{escape(who)}</span><span class='method'>{method.upper()}</span>"
        f"<code>{escape(path)}</code> {_text(operation['summary'])}</summary>{''.join(parts)}</details>"
    )


def _schema(schema: dict[str, Any] | None) -> str:
    """The fields of an object as a table; any other type as one line."""
    if schema is None:
        return ""
    if "properties" not in schema:
        return f"<p>{_type(schema)}</p>"
    required = schema.get("required", [])
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{_type(field)}</td>"
        f"<td>{'required' if name in required else ''}</td><td>{_text(field.get('description', ''))}</td></tr>"
        for name, field in schema["properties"].items()
    )
    return f"<table>{rows}</table>"


def _text(written: str) -> str:
    """What stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(written))


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"<a href='#{escape(name)}'>{escape(name)}</a>"
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return escape(" | ".join(str(value) for value in schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    limits = [f"{word} {schema[key]}" for key, word in _LIMITS.items() if schema.get(key) is not None]
    return escape(", ".join([str(schema.get("format") or schema.get("type") or "any"), *limits]))


_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "length at least",
    "maxLength": "length at most",
    "pattern": "matching",
    "default": "default",
}
