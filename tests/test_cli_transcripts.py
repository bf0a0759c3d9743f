"""What each command prints, as transcripts show it: files, commands, and what came of them."""

import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from cli_run import run

TRANSCRIPTS = Path(__file__).parent / "transcripts"
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def _parts(text: str) -> list[tuple[str, str]]:
    """Commands after a prompt, each with the lines below it."""
    found = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, shown in zip(found[::2], found[1::2], strict=True)]


def _stream() -> Any:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _printed(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Output, then errors, then the exit code if it is not 0."""
    call, _, answers = command.partition(" < ")
    stdin = Path(answers).read_text(encoding="utf-8") if answers else ""
    monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    with redirect_stdout(_stream()) as out, redirect_stderr(_stream()) as err:
        code = run(*shlex.split(call)[1:])
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return "".join(texts) + (f"exit code {code}\n" if code else "")


def _same(shown: str, printed: str) -> bool:
    """Texts are the same up to white space, and numbers up to three in their last digit."""
    if _NUMBER.sub("#", " ".join(shown.split())) != _NUMBER.sub("#", " ".join(printed.split())):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(
        abs(float(one) - float(other)) <= (3.01 * 10.0 ** -len(one.partition(".")[2]))
        for one, other in pairs
        if one != other
    )


def _of(path: Path) -> Any:
    marks = [] if path.stem == "dry-run" else [pytest.mark.slow]
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [_of(path) for path in sorted(TRANSCRIPTS.iterdir())])
def test_transcript(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for command, shown in _parts(path.read_text(encoding="utf-8")):
        if command.startswith("cat > "):
            Path(command.removeprefix("cat > ")).write_text(shown, encoding="utf-8")
            continue
        if command.startswith("cat "):
            printed = Path(command.removeprefix("cat ")).read_text(encoding="utf-8")
        else:
            printed = _printed(command, monkeypatch)
        assert shown == "...\n" or _same(shown, printed), f"$ {command}\n{printed}"
