"""The version of the package that runs."""

from importlib import metadata

__all__ = ["__version__"]

try:
    __version__ = metadata.version("bayesrank")
except metadata.PackageNotFoundError:  # a source tree on the path, never installed
    __version__ = "0+unknown"
