"""What the views find in the application; the keys of `nexarch.module` and `nexarch.tenant_module` are there too."""

from aiohttp import web

from dms_worker.settings import Settings
from nexarch.storage import Storage

SETTINGS: web.AppKey[Settings] = web.AppKey("settings", Settings)
STORAGE: web.AppKey[Storage] = web.AppKey("storage", Storage)
