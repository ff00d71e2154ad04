"""The self-test of the object store: whether this module can use it, and whether the other modules see the same one.

dms-ingest writes the id of the store into it, the worker must find that id with its own settings. Each tells core-api
which id it sees, with fingerprints of its settings, and is told what the others see: where two differ, the /readyz of
both names the setting. No secret is among what is told.
"""

import asyncio
from collections.abc import Mapping
from uuid import UUID

import structlog

from nexarch.core_client import CoreClient, OtherStore
from nexarch.errors import NexarchError, NotReady
from nexarch.storage import Storage
from nexarch.storage.identity import read_identity, written_identity

log = structlog.get_logger(__name__)

_AGAIN_S = 10.0
_SOON_S = 1.0  # while something is wrong
_TIMEOUT_S = 10.0


class SameStore:
    """Looks again and again; `check` is the readiness check."""

    def __init__(self, storage: Storage, core: CoreClient, settings: Mapping[str, str], *, writes: bool) -> None:
        self._storage = storage
        self._core = core
        self._settings = settings
        self._identity = written_identity if writes else read_identity
        self._looked = asyncio.Event()
        self._wrong: str | None = None

    async def run(self) -> None:
        """Look every 10 s, every second while something is wrong; never ends by itself."""
        while True:
            before, self._wrong = self._wrong, await self._look()
            self._looked.set()
            if self._wrong is not None and self._wrong != before:
                log.warning("the object store cannot be used", reason=self._wrong)
            await asyncio.sleep(_AGAIN_S if self._wrong is None else _SOON_S)

    async def check(self) -> None:
        """Raise NotReady with what was found wrong at the last look; waits for the first one."""
        await self._looked.wait()
        if self._wrong is not None:
            raise NotReady(self._wrong)

    async def _look(self) -> str | None:
        """What is wrong, as a sentence for operators."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                store_id = await self._identity(self._storage)
        except NexarchError as error:
            return error.detail
        except TimeoutError:
            return f"The object store does not answer within {_TIMEOUT_S:.0f} s."
        except OSError as error:
            return f"The object store in STORAGE_DIR cannot be used: {type(error).__name__}."
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                others = await self._core.tell_store(store_id, self._settings)
        except (NexarchError, TimeoutError) as error:  # what core-api has is for its own check to tell
            log.debug("core-api was not told which store we see", reason=str(error))
            return None
        return difference(store_id, self._settings, others)


def difference(store_id: UUID | None, settings: Mapping[str, str], others: list[OtherStore]) -> str | None:
    """What is wrong about what the modules see, as a sentence that names the setting; None where all see one store."""
    for other in others:
        if other.store_id != store_id:
            return f"{other.module} sees another object store than this module: {_named(settings, other.settings)}."
    if store_id is None:
        return "No module has written to this object store yet: dms_ingest is still to start, or uses another one."
    return None


def _named(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    if ours["STORAGE_DRIVER"] != theirs.get("STORAGE_DRIVER"):
        return "STORAGE_DRIVER differs"
    names = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    if not names:
        return f"{' and '.join(sorted({*ours} - {'STORAGE_DRIVER'}))} are the same, but lead to different places"
    return f"{' and '.join(names)} {'differs' if len(names) == 1 else 'differ'}"
