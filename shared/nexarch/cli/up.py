"""`nexarch up`: the whole platform under one folder, with a demonstration."""

import asyncio
import contextlib
import shlex
import signal
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from nexarch.bootstrap import BootstrapFailed
from nexarch.cli.failures import INTERRUPTED, Failure
from nexarch.cli.output import clean, size, state
from nexarch.cli.target import LOCAL_ENDPOINTS, Target
from nexarch.migrate_tenants import MigrationFailed
from nexarch.postgres import PostgresFailed
from nexarch.up.demo import Outcome, demonstrate, foreign_sample, prepare_tenant
from nexarch.up.home import Demo, Endpoints, Home, HomeRefused, PortTaken
from nexarch.up.platform import Platform, running_platform
from nexarch.up.processes import NotReady, ServiceProcess
from nexarch.up.samples import make_samples

_DEMO_TENANT = "demo"
_DEMO_EMAIL = "demo@example.org"
_PIPE_WIDTH = 200
_STEP_LENGTH = 240  # characters on a terminal, three lines or so; a pipe gets all


@click.command()
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".nexarch"),
    show_default=True,
    help="The folder for all data, logs and secrets.",
)
@click.option(
    "--port-base",
    type=click.IntRange(1024, 65000),
    default=8080,
    show_default=True,
    help="The first of five ports in a row: core-api, dms-ingest, dms-worker, alerter, PostgreSQL.",
)
@click.option("--demo/--no-demo", default=True, help="Take sample documents through upload, search and download.")
@click.option(
    "--file",
    "files",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    help="A document of your own for the demonstration; may be given several times.",
)
@click.option("--search", "words", multiple=True, help="A word that must find your own documents.")
@click.option("--once", is_flag=True, help="Stop after the demonstration: 0 if all went well, 1 if anything differed.")
def up(home: Path, port_base: int, demo: bool, files: tuple[Path, ...], words: tuple[str, ...], once: bool) -> None:
    """Start the whole platform.

    PostgreSQL and the four services run under one folder; a demonstration shows what they do; they stay up until
    Ctrl-C. A second start on the same folder goes on with its data. HOME/endpoints.json says where everything is, for
    as long as the platform is up.

    A service's settings in the environment count, for example DMS_INGEST_UPLOAD_IDLE_S; ports, addresses and secrets
    are chosen here.
    """
    if not demo and (files or words):
        raise click.UsageError("--file and --search belong to the demonstration, which --no-demo leaves out.")
    run = _Run(Home(home.resolve(), port_base), demo, files, words, once)
    try:
        code = asyncio.run(run.until_told())
    except (HomeRefused, PortTaken, PostgresFailed, BootstrapFailed, MigrationFailed, NotReady) as error:
        headline, _, log = str(error).partition("\n")
        if log:
            click.echo(log.rstrip(), err=True)
        raise Failure(headline) from error
    raise SystemExit(code)


def _stdout() -> Console:
    """Stdout; into a file or a pipe as wide as the lines are."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


@dataclass(frozen=True)
class _Run:
    """One `nexarch up`, from start to stop."""

    home: Home
    demo: bool
    files: tuple[Path, ...]
    words: tuple[str, ...]
    once: bool
    console: Console = field(default_factory=_stdout)

    async def until_told(self) -> int:
        """Run until Ctrl-C, SIGTERM or the terminal's end: 0 if all was up by then, else 130."""
        task = asyncio.current_task()
        assert task is not None

        def stop() -> None:
            if not task.cancelling():  # a second Ctrl-C shall not break off the orderly stop
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        try:
            return await self._run()
        except asyncio.CancelledError:
            return INTERRUPTED

    async def _run(self) -> int:
        async with running_platform(self.home, self._say) as platform:
            endpoints = self._endpoints(platform)
            target = _target(endpoints)
            await prepare_tenant(target, endpoints["demo"])
            self.home.write_endpoints(endpoints)
            try:
                good = await self._demonstrate(target) if self.demo else True
                self._show_addresses(endpoints)
                if self.once:
                    return 0 if good else 1
                with contextlib.suppress(asyncio.CancelledError):
                    await self._show_logs(platform.services)
                return 0
            finally:
                self.home.endpoints_file.unlink(missing_ok=True)
                self._say("stopping the services")

    async def _show_logs(self, services: Sequence[ServiceProcess]) -> None:
        """Until cancelled. To a terminal only: a pipe that nobody reads would make us, who restart services, wait."""
        shown = services if self.console.is_terminal else []
        lines = (service.follow(partial(self._show_line, service.name)) for service in shown)
        await asyncio.gather(asyncio.Event().wait(), *lines)

    async def _demonstrate(self, target: Target) -> bool:
        own = make_samples(self.home.folder / "samples")
        foreign = [foreign_sample(file, self.words) for file in self.files]
        scratch = self.home.folder / "demo"
        scratch.mkdir(exist_ok=True)
        outcomes = await demonstrate(target, own + foreign, scratch, _Display(self.console))
        self.console.print(outcome_table(outcomes))
        problems = [f"{outcome.name}: {problem}" for outcome in outcomes for problem in outcome.problems]
        found = {word for outcome in outcomes for word in outcome.found_by}
        problems += [f"no document of yours is found by {word}" for word in self.words if word not in found]
        for problem in problems:
            self.console.print(Text(f"  ✗ {clean(problem)}", style="red"))
        for outcome in outcomes:
            if outcome.error and not outcome.problems:
                self.console.print(Text(f"  · {clean(outcome.name)} could not be read: {outcome.error}", style="dim"))
        if not problems:
            self.console.print(Text("  ✓ everything came back as it went in", style="green"))
        return not problems

    def _endpoints(self, platform: Platform) -> Endpoints:
        return {
            "core_api": self.home.url("core-api"),
            "dms_ingest": self.home.url("dms-ingest"),
            "dms_worker": self.home.url("dms-worker"),
            "alerter": self.home.url("alerter"),
            "operator_token": platform.operator_token,
            "registry_dsn": platform.registry_dsn,
            "demo": Demo(tenant=_DEMO_TENANT, email=_DEMO_EMAIL, password=self.home.secrets.password("demo-password")),
        }

    def _show_addresses(self, endpoints: Endpoints) -> None:
        self.console.print()
        for service in ("core-api", "dms-ingest", "dms-worker", "alerter"):
            self._line(f"  {service:<10}  {self.home.url(service)}/docs")
        demo = endpoints["demo"]
        self._line(f"  {'demo user':<10}  {demo['email']} of tenant {demo['tenant']}")
        self._line(f"  {'secrets':<10}  {self.home.endpoints_file}")
        if not self.once:
            here = self.home.endpoints_file == LOCAL_ENDPOINTS.absolute()
            chosen = "" if here else f" --endpoints {shlex.quote(str(self.home.endpoints_file))}"
            self._line(f"  {'logs':<10}  {self.home.folder / 'logs'}{', and here' if self.console.is_terminal else ''}")
            self._line(f"  up until Ctrl-C; in another terminal: .venv/bin/nexarch{chosen} documents list")

    def _line(self, text: str) -> None:
        """A line that the terminal may wrap, never we: addresses and paths stay whole for copying."""
        self.console.print(Text(text), soft_wrap=True)

    def _say(self, text: str) -> None:
        self.console.print(Text(f"· {text}", style="dim"))

    def _show_line(self, service: str, line: str) -> None:
        self.console.print(Text.assemble((f"{service:<10} │ ", "cyan"), clean(line)), soft_wrap=True)


def _target(endpoints: Endpoints) -> Target:
    return Target(
        source="nexarch up",
        core_url=endpoints["core_api"],
        ingest_url=endpoints["dms_ingest"],
        worker_url=endpoints["dms_worker"],
        operator_token=endpoints["operator_token"],
        tenant=endpoints["demo"]["tenant"],
        email=endpoints["demo"]["email"],
        password=endpoints["demo"]["password"],
    )


class _Display:
    """The demonstration on the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def step(self, document: str, what: str) -> None:
        """A line for each new state."""
        shown = textwrap.shorten(what, _STEP_LENGTH, placeholder=" …") if self._console.is_terminal else what
        self._console.print(Text.assemble((f"  {clean(document)}  ", "bold"), clean(shown)))

    @contextmanager
    def transfer(self, document: str, size: int) -> Iterator[Callable[[int], None]]:
        """A bar that vanishes when the transfer is done."""
        columns = (TextColumn("  {task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(
            *columns, console=self._console, transient=True, disable=not self._console.is_terminal
        ) as progress:
            task = progress.add_task(clean(document), total=max(size, 1))
            yield lambda done: progress.update(task, completed=done)


def outcome_table(outcomes: list[Outcome]) -> Table:
    """One row a document; the headers are short so that the names stay whole on 80 columns."""
    table = Table(title="What happened", title_justify="left", title_style="bold", box=None, header_style="bold")
    table.pad_edge, table.collapse_padding = False, True
    for column in ("document", "size", "sent in", "read in", "state", "found by", "SHA-256"):
        numeric = column in {"size", "sent in", "read in"}
        table.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for outcome in outcomes:
        same = not any(problem.startswith("SHA-256") for problem in outcome.problems)
        searches = f"{outcome.searches_that_hit} of {outcome.searches}" if outcome.searches else ""
        table.add_row(
            Text(clean(outcome.name)),
            size(outcome.size),
            f"{outcome.upload_s * 1000:.0f} ms",
            f"{outcome.processed_s * 1000:.0f} ms",
            state(outcome.state),
            searches,
            Text("same", style="green") if same else Text("differs", style="red"),
        )
    return table
