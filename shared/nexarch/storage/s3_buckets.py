"""Where a tenant's objects lie on an S3 server: in a bucket of their own, or below a prefix of one for all."""

import re

TENANT = "{tenant}"
# Marks in a bucket for all tenants that a tenant has its place there. No key names it: no component begins with a dot.
MARKER = ".bucket"
_TRAILING = re.compile(r"_+$")


class Buckets:
    """Built from STORAGE_BUCKET: `nexarch-{tenant}` makes one for each tenant, `nexarch` is one for all."""

    def __init__(self, template: str) -> None:
        self._template = template
        self.is_shared = TENANT not in template

    def bucket(self, tenant: str) -> str:
        """The name of the bucket; an underscore, which none may have, becomes a hyphen.

        Slugs have no hyphens, so two tenants never share one. At the end of a name a hyphen is not allowed either:
        there each becomes `.u`.
        """
        stem = _TRAILING.sub(lambda found: ".u" * len(found[0]), tenant)
        return self._template.replace(TENANT, stem.replace("_", "-"))

    def prefix(self, tenant: str) -> str:
        """What the tenant's keys begin with."""
        return f"{tenant}/" if self.is_shared else ""
