"""Signing in: tenant, address and password against a token (`nexarch.user_tokens` says what is in it)."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

import jwt

from core_api.passwords import Passwords
from core_api.signing_keys import SigningKey
from core_api.tenants import NoSuchTenant, Tenant, TenantUnfinished, check_active, get_tenant
from core_api.users import Account, find_account
from nexarch.db import Pool
from nexarch.errors import Unauthorized
from nexarch.tenancy import TenantPools
from nexarch.user_tokens import ALGORITHM


class WrongPassword(Unauthorized):
    """Tenant, address or password is wrong, or the user is disabled; on purpose nobody is told which."""

    code = "wrong-password"
    title = "Tenant, address or password is wrong"


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """Signs tokens that live `ttl_s` seconds."""

    issuer: str
    audience: str
    ttl_s: int

    def issue(self, key: SigningKey, tenant: Tenant, account: Account, now: datetime) -> str:
        """A token for a user of a tenant (JWS compact form)."""
        claims = {
            "iss": self.issuer,
            "aud": self.audience,
            "sub": str(account.id),
            "tenant": tenant.slug,
            "tenant_id": str(tenant.id),
            "role": account.role,
            "iat": now,
            "exp": now + timedelta(seconds=self.ttl_s),
            "jti": secrets.token_urlsafe(16),
        }
        return jwt.encode(claims, key.private_key, algorithm=ALGORITHM, headers={"kid": key.kid})


async def check_password(
    registry: Pool, databases: TenantPools, passwords: Passwords, *, slug: str, email: str, password: str
) -> tuple[Tenant, Account]:
    """Whose password this is; `WrongPassword`, with the same work whatever is wrong.

    `TenantSuspended` only for who knows the password.
    """
    tenant, account = await _find(registry, databases, slug, email)
    is_right = await passwords.verify(None if account is None else account.password_hash, password)
    if tenant is None or account is None or not is_right:
        raise WrongPassword("Tenant, address or password is wrong.")
    check_active(slug, tenant.status)
    return tenant, account


async def _find(
    registry: Pool, databases: TenantPools, slug: str, email: str
) -> tuple[Tenant, Account] | tuple[None, None]:
    if "\0" in slug or "\0" in email:  # Postgres would refuse it, sooner for an unknown tenant than for a known one
        return None, None
    try:
        async with registry.acquire() as conn:
            tenant = await get_tenant(conn, slug)
        async with databases.acquire(slug) as conn:
            account = await find_account(conn, email)
    except (NoSuchTenant, TenantUnfinished):
        return None, None
    return (None, None) if account is None else (tenant, account)
