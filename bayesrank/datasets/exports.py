"""Files as records: JSON, and what programs write for themselves, as games and annotations."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayesrank.datasets.errors import DataError, tell

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")

Record = dict[str, Any]
_TAG = re.compile(r'\[\s*(\w+)\s+"((?:[^"\\]|\\.)*)"\s*\]\s*')


def read_json(path: Path, text: str) -> list[tuple[int, Record]]:
    """Read one object a line; or, of a file that ends in .json, one array of objects."""
    if text.startswith('{"bayesrank":"journal"'):
        fix = f"export its answers: bayesrank ask ITEMS --journal {path} --export answers.csv"
        raise DataError(path, "this is a journal of ask", fix, row=1)
    whole = _json(text) if ".json" in path.suffixes else None
    whole = _transposed(whole) if isinstance(whole, dict) else whole
    whole = whole if isinstance(whole, list) else None
    lines: Any = enumerate(text.split("\n") if whole is None else whole, start=1)
    records: list[tuple[int, Record]] = []
    for number, line in lines:
        if whole is None and not line.strip():
            continue
        record = _json(line) if whole is None else line
        if not isinstance(record, dict):
            problem = "this line is not a JSON object with each key once"
            fix = 'write objects, as in {"winner": "Ada", "loser": "Bob"}'
            raise DataError(path, problem, fix, row=number)
        records += [(number, each) for each in _annotations(record)]
    return records


def _transposed(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one object that holds columns, as lists or by the rows' names; or a list in it."""
    held = list(record.values())
    lists = [each for each in held if isinstance(each, list | dict)]
    if len(lists) == 1 and isinstance(lists[0], list) and all(type(r) is dict for r in lists[0]):
        return lists[0] or [record]
    if len(held) < 2 or not all(isinstance(column, list | dict) for column in held):
        return [record]
    if len({len(each) if isinstance(each, list) else (*each,) for each in held}) > 1:
        return [record]
    columns = [each if isinstance(each, list) else list(each.values()) for each in held]
    return [dict(zip(record, row, strict=True)) for row in zip(*columns, strict=True)]


def _json(text: str) -> Any:
    """What JSON text says; None where it is none, or an object has one key twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("one key twice")
        return found

    try:
        return json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None


def _annotations(record: Record) -> Iterator[Record]:
    """Records of one of JSON: itself, or of Label Studio's tasks one for each answer."""
    if isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list):
        for annotation in filter(_is_answer, record["annotations"]):
            for answer in annotation.get("result") or ():
                value = answer.get("value") if isinstance(answer, dict) else None
                if isinstance(value, dict) and ("selected" in value or "ranker" in value):
                    yield {**record["data"], "judge": _judge(annotation), **_said(value)}
        return
    yield dict(part for name, value in record.items() for part in _parts(name, value))


def _is_answer(annotation: Any) -> bool:
    return isinstance(annotation, dict) and not annotation.get("was_cancelled")


def _judge(annotation: Record) -> Any:
    """Who answered; newer versions say more of them than their number."""
    judge = annotation.get("completed_by")
    return judge.get("id") if isinstance(judge, dict) else judge


def _said(value: Record) -> Record:
    """The side that was chosen, or the order."""
    if "selected" in value:
        return {"selected": value["selected"]}
    ranked = value["ranker"]
    lists = list(ranked.values()) if isinstance(ranked, dict) else [ranked]
    return {"order": lists[0] if lists else None}


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """A value, or what a record in its place says; of Label Studio's, the side that was chosen."""
    if not isinstance(value, dict) or any(isinstance(v, dict | list) for v in value.values()):
        return [(name, value)]
    return [(name if part == "selected" else f"{name}.{part}", v) for part, v in value.items()]


def read_games(path: Path, text: str) -> list[tuple[int, Record]]:
    """Tags of chess games in PGN; games without a result are left out."""
    games: list[tuple[int, Record]] = []
    inside = False
    for row, line in enumerate(text.split("\n"), start=1):
        tag = _TAG.fullmatch(line.strip())
        if tag is not None:
            if not inside:
                games.append((row, {}))
            games[-1][1][tag[1].lower()] = re.sub(r"\\(.)", r"\1", tag[2])
        inside = tag is not None
    ended = [(row, game) for row, game in games if game.get("result") != "*"]
    if len(ended) < len(games):
        tell(f"Games of {path.name} without a result, left out: {len(games) - len(ended):,}.")
    if not ended:
        raise DataError(path, "there is no game with a result", "give one with its tags")
    names = ("white", "black", "result", "date")
    return [(row, {name: game.get(name) for name in names}) for row, game in ended]
