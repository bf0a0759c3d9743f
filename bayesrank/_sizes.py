"""Sizes that arrays are filled up to, so that few shapes are compiled."""


def next_size(count: int, fewest: int = 1, times: int = 2) -> int:
    """The least of `fewest`, `fewest * times`, `fewest * times**2`, ... that is enough."""
    size = fewest
    while size < count:
        size *= times
    return size
