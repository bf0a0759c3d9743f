"""Compiled code of the command line, which the next run finds again."""

import os
import shutil
from pathlib import Path

from bayesrank._version import __version__

_LARGEST = 200_000_000  # bytes
_WARNING = "persistent compilation cache"  # in what JAX says of a file that it cannot read
# Most programs of a short run compile in less than the second from which JAX stores them.
_SETTINGS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def silence_compiler() -> None:
    """Keep XLA's log off the terminal, before JAX is imported, unless the user sets its level.

    Its alarms of a "very slow" compilation help nobody.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def reuse_compiled_code() -> None:
    """Let JAX store compiled code in the cache home, unless the user's settings say otherwise."""
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    folder = _folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK)
        if own:
            _make_room(folder)
    except OSError:
        return
    if own:
        os.environ |= {"JAX_COMPILATION_CACHE_DIR": str(folder), **_SETTINGS}


def forgets_damaged_code(message: str) -> bool:
    """Remove all code if a warning says that a file of it is damaged; whether it does."""
    if _WARNING not in message:
        return False
    if os.environ.get("JAX_COMPILATION_CACHE_DIR") != str(_folder()):
        return False
    shutil.rmtree(_folder(), ignore_errors=True)
    return True


def _folder() -> Path:
    """The folder of this version; JAX tells processors, options and its own versions apart."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "bayesrank" / "compiled" / __version__


def _make_room(folder: Path) -> None:
    """Remove code of other versions, and all code if there is too much."""
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    if sum(file.stat().st_size for file in folder.iterdir()) > _LARGEST:
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
