"""What the application holds, by typed keys."""

from aiohttp import web

from core_api.master_key import MasterKey
from core_api.passwords import Passwords
from core_api.provisioning import Provisioner
from core_api.settings import Settings
from core_api.sign_in import TokenIssuer
from nexarch.auth import FailureLimiter
from nexarch.db import Pool
from nexarch.tenancy import TenantPools

SETTINGS: web.AppKey[Settings] = web.AppKey("settings", Settings)
REGISTRY: web.AppKey[Pool] = web.AppKey("registry", Pool)
TENANT_DATABASES: web.AppKey[TenantPools] = web.AppKey("tenant_databases", TenantPools)  # as their owner
MASTER_KEY: web.AppKey[MasterKey] = web.AppKey("master_key", MasterKey)
PROVISIONER: web.AppKey[Provisioner] = web.AppKey("provisioner", Provisioner)
PASSWORDS: web.AppKey[Passwords] = web.AppKey("passwords", Passwords)
TOKEN_ISSUER: web.AppKey[TokenIssuer] = web.AppKey("token_issuer", TokenIssuer)
CREDENTIAL_FAILURES: web.AppKey[FailureLimiter] = web.AppKey("credential_failures", FailureLimiter)
SIGN_IN_FAILURES: web.AppKey[FailureLimiter] = web.AppKey("sign_in_failures", FailureLimiter)
