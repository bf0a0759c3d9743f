"""Records of a loop that nothing keeps."""

from collections.abc import Mapping
from typing import Any


class MemoryLog:
    """Holds records in memory, in place of a journal."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self.records)

    def records_from(self, place: int) -> list[dict[str, Any]]:
        """All records but the first so many."""
        return self.records[place:]

    def append(self, record: Mapping[str, Any]) -> None:
        """Keep a record."""
        self.records.append({"n": len(self.records) + 1, **record})

    def close(self) -> None:
        """Nothing to close."""
