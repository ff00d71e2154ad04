"""What the views find in the application; `nexarch.module.CORE` is there too."""

from aiohttp import web

from dms_worker.settings import Settings
from nexarch.doorbell import Doorbell
from nexarch.storage import Storage
from nexarch.tenancy import TenantPools
from nexarch.user_tokens import UserTokens

SETTINGS: web.AppKey[Settings] = web.AppKey("settings", Settings)
TENANTS: web.AppKey[TenantPools] = web.AppKey("tenants", TenantPools)
DOORBELL: web.AppKey[Doorbell] = web.AppKey("doorbell", Doorbell)
STORAGE: web.AppKey[Storage] = web.AppKey("storage", Storage)
USER_TOKENS: web.AppKey[UserTokens] = web.AppKey("user_tokens", UserTokens)
