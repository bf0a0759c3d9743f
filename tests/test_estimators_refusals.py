"""What `PreferenceGP.fit` refuses, in one message each."""

from typing import Any

import numpy as np
import pytest

from bayesrank import PreferenceGP

X_OK = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]

BAD_FITS = {
    "one feature as a vector": ({"X": [1.0, 2.0]}, "Expected 2D array"),
    "nan": ({"X": [[0.0, np.nan], [1.0, 0.0]]}, "contains NaN"),
    "one item": ({"X": [[0.0, 1.0]]}, "minimum of 2 is required"),
    "unknown item": ({"comparisons": [(0, 3)]}, "names item 3 in row 0"),
    "itself": ({"comparisons": [(0, 1), (2, 2)]}, "compares item 2 with itself in row 1"),
    "three columns": (
        {"comparisons": [(0, 1, 2)]},
        "has shape .1, 3. .*; pass pairs of item numbers",
    ),
    "no comparison": ({"comparisons": np.zeros((0, 2), int)}, "has no rows"),
    "an empty list": ({"comparisons": []}, "has no rows; pass one .winner, loser."),
    "names": ({"comparisons": [("ann", "bob")]}, "has 'ann' in row 0; pass the row numbers"),
    "no draws": ({"num_samples": 0}, "num_samples is 0; pass a whole number from 1 on"),
    "floats": ({"comparisons": [(0.0, 1.0)]}, "dtype float64; pass pairs of item numbers"),
    "ties too short": ({"ties": [True]}, "ties has shape .1,. and dtype bool; pass .2,."),
    "ties of another kind": ({"ties": [0, 2]}, "True or False for each row of comparisons"),
    "likelihood": ({"likelihood": "cloglog"}, "`likelihood` is 'cloglog'"),
    "hyperparameters": (
        {"hyperparameters": "best"},
        "'best'; choose 'integrate', 'map', 'prior'",
    ),
    "unknown name": ({"hyperparameters": {"scale": 1.0}}, "names 'scale'; there are"),
    "tie width without ties": ({"hyperparameters": {"tie_width": 1.0}}, "names 'tie_width'"),
    "negative": ({"hyperparameters": {"noise": -1.0}}, "'noise'. is -1.0; pass a positive"),
    "one lengthscale for two": (
        {"ard": True, "hyperparameters": {"lengthscale": 1.0}},
        "'lengthscale'. is 1.0; pass 2 positive numbers",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD_FITS.values(), ids=BAD_FITS)
def test_what_fit_refuses(changes, message):
    call: dict[str, Any] = {"X": X_OK, "comparisons": [(0, 1), (1, 2)], "ties": None}
    options: dict[str, Any] = {"hyperparameters": "prior"}
    for name, value in changes.items():
        (call if name in call else options)[name] = value
    with pytest.raises(ValueError, match=message):
        PreferenceGP(**options).fit(**call)
