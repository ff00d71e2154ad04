"""`nexarch token`: a bearer token for curl and other programs."""

import asyncio

import click

from nexarch.cli.client import UserLogin, open_session
from nexarch.cli.options import Options, pass_options, shared_options
from nexarch.cli.output import show_json
from nexarch.cli.target import resolve_target


@click.command()
@shared_options
@pass_options
def token(options: Options) -> None:
    """Print a token for curl.

    It is the token of the user who is logged in, good for at most 15 minutes:

    curl -H "Authorization: Bearer $(nexarch token)" ...
    """

    async def ask() -> str:
        async with open_session() as session:
            return await UserLogin(session, resolve_target(options.endpoints)).token()

    answer = asyncio.run(ask())
    if options.json:
        show_json({"access_token": answer, "token_type": "Bearer"})
    else:
        click.echo(answer)
