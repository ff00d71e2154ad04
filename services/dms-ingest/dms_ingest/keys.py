"""What the handlers find in the application; `nexarch.module.CORE` is there too."""

from aiohttp import web

from dms_ingest.completing import Completer
from dms_ingest.receiving import Receiver
from dms_ingest.settings import Settings
from dms_ingest.staging import Staging
from dms_ingest.usage_delivery import UsageDelivery
from nexarch.doorbell import Doorbell
from nexarch.storage import Storage
from nexarch.tenancy import TenantPools
from nexarch.user_tokens import UserTokens

SETTINGS: web.AppKey[Settings] = web.AppKey("settings", Settings)
TENANTS: web.AppKey[TenantPools] = web.AppKey("tenants", TenantPools)
DOORBELL: web.AppKey[Doorbell] = web.AppKey("doorbell", Doorbell)
STORAGE: web.AppKey[Storage] = web.AppKey("storage", Storage)
STAGING: web.AppKey[Staging] = web.AppKey("staging", Staging)
USER_TOKENS: web.AppKey[UserTokens] = web.AppKey("user_tokens", UserTokens)
USAGE: web.AppKey[UsageDelivery] = web.AppKey("usage", UsageDelivery)
RECEIVER: web.AppKey[Receiver] = web.AppKey("receiver", Receiver)
COMPLETER: web.AppKey[Completer] = web.AppKey("completer", Completer)
