"""How a module gets into a tenant's database: the role and its password, which is sealed in the registry."""

from dataclasses import dataclass
from uuid import UUID

from core_api.master_key import MasterKey
from core_api.provisioning import PASSWORD_PURPOSE
from nexarch.db import Connection, fetch_one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sealed:
    database_name: str
    role_name: str
    sealed_password: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLogin:
    """A tenant's database, and the role that may use it."""

    database: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"TenantLogin({self.user} on {self.database})"


async def open_login(conn: Connection, master: MasterKey, tenant_id: UUID) -> TenantLogin:
    """The login of a complete tenant."""
    sql = "SELECT database_name, role_name, sealed_password FROM tenants WHERE id = $1"
    sealed = await fetch_one(conn, _Sealed, sql, tenant_id)
    password = master.open(sealed.sealed_password, PASSWORD_PURPOSE, tenant_id.bytes)
    return TenantLogin(database=sealed.database_name, user=sealed.role_name, password=password.decode())
