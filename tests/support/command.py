"""The command `nexarch` as a process of its own, with a home folder of the test's own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Result:
    """What a run left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON
        """The one JSON document on stdout."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Command:
    """`nexarch` in a folder; nothing of the caller's own configuration reaches it."""

    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    async def __call__(
        self, *arguments: str | Path, stdin: str = "", variables: Mapping[str, str] | None = None
    ) -> Result:
        """Run it to its end."""
        process = await self.start(*arguments, variables=variables)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                out, err = await process.communicate(stdin.encode())
        finally:
            if process.returncode is None:  # it hangs: it must not outlive its test
                process.terminate()
                await process.wait()
        assert process.returncode is not None
        return Result(process.returncode, out.decode(), err.decode())

    async def start(
        self, *arguments: str | Path, variables: Mapping[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        """Start it, and leave it to the caller."""
        program = Path(sys.executable).with_name("nexarch")
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        own = {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
        }
        return await asyncio.create_subprocess_exec(
            program,
            *arguments,
            cwd=self.home,
            env=inherited | own | self.variables | dict(variables or {}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=_heed_interrupts,
        )


def _heed_interrupts() -> None:
    """Tests that a script started in the background inherit that Ctrl-C is ignored; a person's command does not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
