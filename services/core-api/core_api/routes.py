"""Every method and path of core-api on one page."""

from http import HTTPStatus

from core_api.credentials import ExpiryInThePast, LastCredential, NoSuchCredential, TwoCredentialsLive
from core_api.flags import NoSuchFlag, UnknownTargets
from core_api.key_rotation import TenantNotSuspended
from core_api.modules import ModuleExists, ModuleNotActive, ModulePrefixTaken, NoSuchModule, ScopeMissing
from core_api.operators import NoSuchOperator
from core_api.passwords import SignInBusy
from core_api.provisioning import DatabaseNameTaken, InvalidTenant, SlugTaken, TemplateBusy
from core_api.sign_in import WrongPassword
from core_api.signing_keys import NoSigningKey, RotationRunning
from core_api.tenant_keys import KeyRotationRunning, NoSuchKey
from core_api.tenants import NoSuchTenant, TenantSuspended, TenantUnfinished
from core_api.usage import UsageOverflow
from core_api.users import EmailTaken, InvalidUser, NoSuchUser
from core_api.views import (
    credentials,
    flags,
    for_modules,
    modules,
    operators,
    tenant_keys,
    tenants,
    tokens,
    usage,
    users,
)
from nexarch.auth import Access
from nexarch.core_client import KeyRetired, KeyShredded
from nexarch.errors import TooManyRequests
from nexarch.idempotency import BadIdempotencyKey, IdempotencyKeyReused
from nexarch.pages import BadCursor
from nexarch.routing import SMALL_BODY, Route

_OPERATOR, _SERVICE = Access.OPERATOR, Access.SERVICE
_CREATED, _NO_CONTENT = HTTPStatus.CREATED, HTTPStatus.NO_CONTENT
_WORKABLE = [NoSuchTenant, TenantSuspended, TenantUnfinished]
_ADMITTED = [*_WORKABLE, ModuleNotActive, ScopeMissing]

# fmt: off
ROUTES = [
    Route("POST", "/v1/tenants", tenants.create, _OPERATOR, tenants.TenantAnswer, _CREATED,
          [SlugTaken, InvalidTenant, DatabaseNameTaken, TemplateBusy, BadIdempotencyKey, IdempotencyKeyReused]),
    Route("GET", "/v1/tenants", tenants.list_, _OPERATOR | _SERVICE, tenants.TenantPage, errors=[BadCursor]),
    Route("GET", "/v1/tenants/{slug}", tenants.get, _OPERATOR, tenants.TenantAnswer, errors=[NoSuchTenant]),
    Route("POST", "/v1/tenants/{slug}/suspend", tenants.suspend, _OPERATOR, tenants.TenantAnswer,
          errors=[NoSuchTenant, TenantUnfinished]),
    Route("POST", "/v1/tenants/{slug}/resume", tenants.resume, _OPERATOR, tenants.TenantAnswer,
          errors=[NoSuchTenant, TenantUnfinished, KeyShredded]),
    Route("POST", "/v1/tenants/{slug}/kek/rotate", tenant_keys.rotate, _OPERATOR, tenant_keys.KeyVersions,
          errors=[*_WORKABLE, KeyShredded, KeyRotationRunning]),
    Route("POST", "/v1/tenants/{slug}/kek/shred", tenant_keys.shred, _OPERATOR, tenant_keys.KeyVersions,
          errors=[NoSuchTenant, TenantNotSuspended, tenant_keys.NotConfirmed]),
    Route("GET", "/v1/tenants/{slug}/flags/{key}", flags.of_tenant, _OPERATOR | _SERVICE, flags.FlagValue,
          errors=[NoSuchTenant]),

    Route("POST", "/v1/tenants/{slug}/users", users.create, _OPERATOR, users.UserAnswer, _CREATED,
          [*_WORKABLE, EmailTaken, InvalidUser, SignInBusy]),
    Route("GET", "/v1/tenants/{slug}/users", users.list_, _OPERATOR, users.UserPage, errors=[*_WORKABLE, BadCursor]),
    Route("POST", "/v1/tenants/{slug}/users/{id}/disable", users.disable, _OPERATOR, users.UserAnswer,
          errors=[*_WORKABLE, NoSuchUser]),

    Route("POST", "/v1/auth/token", tokens.create, Access.SIGN_IN, tokens.Token, max_body=SMALL_BODY,
          errors=[WrongPassword, TooManyRequests, TenantSuspended, SignInBusy, NoSigningKey]),
    Route("GET", "/.well-known/jwks.json", tokens.keys, Access.INTERNAL, tokens.JsonWebKeys),
    Route("POST", "/v1/keys/rotate", tokens.rotate, _OPERATOR, tokens.SigningKeyAnswer, errors=[RotationRunning]),

    Route("GET", "/v1/flags", flags.list_, _OPERATOR, flags.FlagPage, errors=[BadCursor]),
    Route("PUT", "/v1/flags/{key}", flags.put, _OPERATOR, flags.FlagAnswer, errors=[NoSuchFlag, UnknownTargets]),
    Route("GET", "/v1/flags/{key}", flags.get, _OPERATOR, flags.FlagAnswer, errors=[NoSuchFlag]),
    Route("DELETE", "/v1/flags/{key}", flags.delete, _OPERATOR, None, _NO_CONTENT, [NoSuchFlag]),

    Route("POST", "/v1/modules/self/announce", modules.announce, _SERVICE, modules.ModuleAnswer),
    Route("POST", "/v1/modules/self/store", for_modules.tell_store, _SERVICE, for_modules.OtherStores),
    Route("POST", "/v1/modules", modules.create, _OPERATOR, modules.ModuleAnswer, _CREATED,
          [ModuleExists, ModulePrefixTaken]),
    Route("GET", "/v1/modules", modules.list_, _OPERATOR, modules.ModulePage, errors=[BadCursor]),
    Route("GET", "/v1/modules/{id}", modules.get, _OPERATOR, modules.ModuleAnswer, errors=[NoSuchModule]),
    Route("PUT", "/v1/modules/{id}", modules.replace, _OPERATOR, modules.ModuleAnswer, errors=[NoSuchModule]),
    Route("GET", "/v1/modules/{id}/tenants/{slug}", modules.activation, _OPERATOR, modules.ActivationAnswer,
          errors=[NoSuchModule, NoSuchTenant]),
    Route("POST", "/v1/modules/{id}/credentials", credentials.create, _OPERATOR, credentials.NewCredentialAnswer,
          _CREATED, [NoSuchModule, TwoCredentialsLive, ExpiryInThePast]),
    Route("GET", "/v1/modules/{id}/credentials", credentials.list_, _OPERATOR, credentials.CredentialList,
          errors=[NoSuchModule]),
    Route("POST", "/v1/modules/{id}/credentials/{credential_id}/revoke", credentials.revoke, _OPERATOR,
          credentials.CredentialAnswer, errors=[NoSuchCredential, LastCredential]),

    Route("GET", "/v1/tenants/{slug}/database", for_modules.database, _SERVICE, for_modules.DatabaseAnswer,
          errors=_ADMITTED),
    Route("GET", "/v1/tenants/{slug}/kek", for_modules.kek, _SERVICE, for_modules.KeyAnswer,
          errors=[*_ADMITTED, NoSuchKey, KeyRetired, KeyShredded]),
    Route("GET", "/v1/tenants/{slug}/kek/versions", tenant_keys.versions, _OPERATOR | _SERVICE,
          tenant_keys.KeyVersions, errors=_ADMITTED),
    Route("POST", "/v1/tenants/{slug}/kek/retire", tenant_keys.retire, _SERVICE, tenant_keys.KeyVersions,
          errors=_ADMITTED),
    Route("POST", "/v1/operators/identify", operators.identify, _SERVICE, operators.OperatorAnswer,
          errors=[NoSuchOperator]),
    Route("POST", "/v1/usage", for_modules.report_usage, _SERVICE, for_modules.Applied,
          errors=[*_ADMITTED, UsageOverflow]),
    Route("POST", "/v1/tenants/{slug}/usage/recount", usage.recount, _OPERATOR, usage.Corrected,
          errors=[NoSuchTenant]),
    Route("GET", "/v1/usage", usage.list_, _OPERATOR, usage.UsagePage, errors=[BadCursor]),
]
# fmt: on
