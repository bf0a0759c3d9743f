"""Stores of answers: a journal on disk, or the memory of this process."""

from bayesrank.active.store.journal import Journal as Journal
from bayesrank.active.store.journal import read_journal as read_journal
from bayesrank.active.store.lines import JournalContents as JournalContents
from bayesrank.active.store.lines import JournalError as JournalError
from bayesrank.active.store.memory import MemoryLog as MemoryLog

__all__ = ["Journal", "JournalContents", "JournalError", "MemoryLog", "read_journal"]
