"""Bytes for a staged file, as they come to its writer."""

from dms_ingest.staged_writing import StagedWriter


async def take(writer: StagedWriter, content: bytes | memoryview) -> None:
    """Give a writer these bytes; raises what it raises."""
    rest = memoryview(content)
    while rest:
        room = await writer.room()
        count = min(len(room), len(rest))
        room[:count] = rest[:count]
        writer.took(count)
        rest = rest[count:]
