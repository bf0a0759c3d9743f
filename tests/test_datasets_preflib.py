"""PrefLib files: expansion by hand, against PrefLib's own reader, and refusals."""

from collections import Counter

import numpy as np
import pytest
from preflibtools.instances import OrdinalInstance

from bayesrank.datasets import DataError, read_comparisons

HEADER = """# FILE NAME: x.toi
# TITLE: Fruit
# DATA TYPE: toi
# NUMBER ALTERNATIVES: 4
# ALTERNATIVE NAME 1: apple
# ALTERNATIVE NAME 2: banana: ripe
# ALTERNATIVE NAME 3: cherry
# ALTERNATIVE NAME 4: date
"""


def _file(tmp_path, body, name="x.toi", header=HEADER):
    path = tmp_path / name
    path.write_bytes((header + body).encode())
    return path


def _counts(data):
    found = Counter()
    for (better, worse), weight in zip(data.comparisons, data.weights, strict=True):
        found[data.names[better], data.names[worse]] += weight
    return found


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_orders_imply_pairs_that_count_once_a_voter(tmp_path, newline):
    body = f"2: 3,{{1,4}},2{newline}1: 2{newline}3: 4, 1{newline}"
    data = read_comparisons(_file(tmp_path, body))
    assert data.names == ("apple", "banana: ripe", "cherry", "date")
    assert data.features is None
    assert not data.tied.any()
    assert _counts(data) == {
        ("cherry", "apple"): 2,
        ("cherry", "date"): 2,
        ("cherry", "banana: ripe"): 2,
        ("apple", "banana: ripe"): 2,
        ("date", "banana: ripe"): 2,
        ("date", "apple"): 3,
    }
    assert data.orders is not None
    assert data.orders.groups == (((2,), (0, 3), (1,)), ((3,), (0,)))
    assert data.orders.counts.tolist() == [2, 3]
    with pytest.raises(ValueError, match="data has orders, which stay whole"):
        data.where(data.comparisons[:, 0] == 2)


def test_agrees_with_the_reader_of_preflib(tmp_path):
    rng = np.random.default_rng(1)
    lines = []
    drawn = [rng.permutation(np.arange(1, 8))[: rng.integers(2, 8)].tolist() for _ in range(40)]
    for order in {tuple(numbers) for numbers in drawn}:
        cut = int(rng.integers(1, len(order)))
        tail = list(order[cut:])
        last = "{" + ",".join(map(str, tail)) + "}" if len(tail) > 1 else str(tail[0])
        lines.append(f"{rng.integers(1, 5)}: {','.join(map(str, order[:cut]))},{last}\n")
    header = "# DATA TYPE: toi\n# NUMBER ALTERNATIVES: 7\n# NUMBER VOTERS: 0\n"
    header += "".join(f"# ALTERNATIVE NAME {i}: item {i}\n" for i in range(1, 8))
    path = _file(tmp_path, "".join(lines), header=header)
    oracle = OrdinalInstance()
    oracle.parse_file(str(path))
    expected: Counter[tuple[str, str]] = Counter()
    for order in oracle.orders:
        for i, group in enumerate(order):
            for worse in order[i + 1 :]:
                for winner in group:
                    for loser in worse:
                        pair = (oracle.alternatives_name[winner], oracle.alternatives_name[loser])
                        expected[pair] += oracle.multiplicity[order]
    assert expected.total() > 200
    assert _counts(read_comparisons(path)) == expected


def test_items_file_gives_numbering_and_features(tmp_path):
    items = tmp_path / "items.csv"
    items.write_text("item,x\ndate,1\ncherry,2\napple,4\nbanana: ripe,8\n")
    data = read_comparisons(_file(tmp_path, "1: 1,4\n", name="X.SOI"), items)
    np.testing.assert_array_equal(data.comparisons, [[2, 0]])
    assert data.features is not None
    np.testing.assert_array_equal(data.features[:, 0], [1, 2, 4, 8])


def test_items_file_must_know_every_alternative_ranked(tmp_path):
    items = tmp_path / "items.csv"
    items.write_text("item,x\ndate,1\ncherry,2\n")
    with pytest.raises(DataError, match=r"x.toi, row 9: unknown item 'apple'; add it to "):
        read_comparisons(_file(tmp_path, "1: 1,4\n"), items)


BAD = {
    "header only": ("", "there is a header but no order below it"),
    "no pairs": ("2: 1\n1: {2,3}\n", "no order puts one item above another"),
    "no count": ("1,2,3\n", "row 9: '1,2,3' is not an order"),
    "words": ("1: 1,2\n1: 1,x\n", "row 10: '1: 1,x' is not an order"),
    "open brace": ("1: 1,{2,3\n", "row 9: '1: 1,{2,3' is not an order"),
    "no such number": ("1: 1,9\n", "row 9: alternative 9 has no name"),
    "twice": ("1: 1,{2,1}\n", "row 9: item 'apple' is in the order twice"),
}


@pytest.mark.parametrize(("body", "message"), BAD.values(), ids=BAD)
def test_bad_orders_are_refused(tmp_path, body, message):
    with pytest.raises(DataError) as caught:
        read_comparisons(_file(tmp_path, body))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_headers_are_refused(tmp_path):
    with pytest.raises(DataError, match="row 3: no line '# ALTERNATIVE NAME 1: ...' stands above"):
        read_comparisons(_file(tmp_path, "2\n", name="old.soc", header="# A\n# B\n"))
    twice = "# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: a\n"
    with pytest.raises(DataError, match=r"row 2: alternative 2 \('a'\) is named twice"):
        read_comparisons(_file(tmp_path, "1: 1,2\n", header=twice))
