"""Check what is in the built wheel and sdist: ``python .ci/check_archives.py dist``."""

import sys
import tarfile
import zipfile
from pathlib import Path


def main(folder: Path) -> None:
    """Exit with a message if a file of the package is missing from an archive."""
    package = {
        path.as_posix()
        for path in Path("bayesrank").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    complain(wheel, package - in_wheel, "is missing")
    complain(wheel, {name for name in in_wheel if name.startswith(("models", "tests"))}, "is extra")
    wanted = package | {"README.md", "LICENSE", "tests/conftest.py"}
    complain(sdist, wanted - in_sdist, "is missing")
    print(f"{wheel.name}: {len(in_wheel)} files; {sdist.name}: {len(in_sdist)} entries")


def complain(archive: Path, names: set[str], what: str) -> None:
    """Exit if there are names to complain about."""
    if names:
        sys.exit(f"{archive.name}: {', '.join(sorted(names))} {what}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
