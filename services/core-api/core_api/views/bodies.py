"""How our values look in bodies and paths."""

import re
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from core_api import flags, modules, tenants
from core_api.modules import NoSuchModule
from core_api.tenants import NoSuchTenant

Slug = Annotated[str, Field(pattern=tenants.SLUG, examples=["acme"])]
FlagKey = Annotated[str, Field(pattern=flags.KEY, examples=["dms"])]
ModuleId = Annotated[str, Field(pattern=modules.ID, examples=["dms_ingest"])]
Version = Annotated[str, Field(pattern=modules.VERSION, examples=["1.4.0"])]
Name = Annotated[str, Field(min_length=1, max_length=255)]  # the database says which characters


class Body(BaseModel):
    """A body that we take: a field that we do not know is a mistake, not something to overlook."""

    model_config = ConfigDict(extra="forbid", str_max_length=10_000, hide_input_in_errors=True)


def slug_in_path(request: web.Request) -> str:
    """The tenant in the path; what cannot be a slug is the slug of nothing."""
    slug = request.match_info["slug"]
    if re.fullmatch(tenants.SLUG, slug) is None:
        raise NoSuchTenant(slug[:100])
    return slug


def module_in_path(request: web.Request) -> str:
    """The module in the path; what cannot be a module's id is the id of nothing."""
    module_id = request.match_info["id"]
    if re.fullmatch(modules.ID, module_id) is None:
        raise NoSuchModule("There is no such module.", module=module_id[:100])
    return module_id
