"""`nexarch flags`: which features are on, as an operator."""

import click

from nexarch.cli.arguments import KEY, SLUG
from nexarch.cli.operating import list_for_operator, operator_call
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import note, show_fields, show_json, when


@click.group()
def flags() -> None:
    """Feature flags, for operators."""


@flags.command("list")
@page_options
@shared_options
@pass_options
def list_(options: Options, *, limit: int, everything: bool, cursor: str | None) -> None:
    """List flags."""
    list_for_operator(
        options,
        "/v1/flags",
        lambda flag: (
            flag["key"],
            "yes" if flag["enabled_for_all"] else "no",
            ", ".join(flag.get("tenants") or []),
            when(flag.get("updated_at")),
        ),
        columns=["key", "for all", "for tenants", "changed"],
        nothing="There is no flag: each is off.",
        limit=None if everything else limit,
        cursor=cursor,
    )


@flags.command("set")
@click.argument("key", type=KEY)
@click.option("--on/--off", "enabled", default=True, show_default=True, help="For all tenants.")
@click.option("--tenant", "tenants", multiple=True, type=SLUG, help="On for this tenant; may be given again.")
@shared_options
@pass_options
def set_(options: Options, *, key: str, enabled: bool, tenants: tuple[str, ...]) -> None:
    """Switch a flag on or off for all tenants, or (--off --tenant SLUG) on for some."""
    body = {"enabled_for_all": enabled, "tenants": list(tenants)}
    flag = operator_call(options, "PUT", f"/v1/flags/{key}", body)
    if options.json:
        show_json(flag)
    else:
        show_fields(list(flag.items()))


@flags.command("delete")
@click.argument("key", type=KEY)
@shared_options
@pass_options
def delete(options: Options, *, key: str) -> None:
    """Forget a flag; an unknown flag is off."""
    operator_call(options, "DELETE", f"/v1/flags/{key}")
    if options.json:
        show_json({"key": key, "deleted": True})
    else:
        note(f"Deleted {key}.")
