"""Texts to counts of stems, by scikit-learn's vectoriser and the Snowball stemmers."""

import re
from functools import lru_cache
from typing import Any

import snowballstemmer
from sklearn.feature_extraction.text import CountVectorizer

_WORD = re.compile(r"\w\w+")


class Stems:
    """Words of two letters or more, in lower case, without their endings."""

    def __init__(self, language: str) -> None:
        self.language = language

    def __call__(self, text: str) -> list[str]:
        """Stems of a text, in order."""
        if not isinstance(text, str):
            raise ValueError(f"a text is {text!r}; pass strings, '' for one that is empty")
        stem = _stemmer(self.language)
        return [stem(word) for word in _WORD.findall(text.lower())]


@lru_cache
def _stemmer(language: str) -> Any:
    return lru_cache(maxsize=1_000_000)(snowballstemmer.stemmer(language).stemWord)


def term_counter(language: str | None = "english", **options: Any) -> CountVectorizer:
    """Return a vectoriser that counts terms.

    Parameters
    ----------
    language
        Language of the Snowball stemmer; with None words are counted as they are, in lower case.
    **options
        Options of scikit-learn's ``CountVectorizer``, such as ``min_df`` and ``vocabulary``.

    Returns
    -------
    CountVectorizer
        ``fit_transform(texts)`` learns the terms and counts them; ``transform(texts)`` leaves out
        terms that it does not know.

    Raises
    ------
    ValueError
        If there is no stemmer of the language.

    Examples
    --------
    >>> counter = term_counter()
    >>> counter.fit_transform(["Linked documents", "a linked document, linking"]).toarray()
    array([[1, 1],
           [1, 2]])
    """
    if language is None:
        return CountVectorizer(token_pattern=_WORD.pattern, **options)
    if language not in snowballstemmer.algorithms():
        known = ", ".join(snowballstemmer.algorithms())
        raise ValueError(f"language is {language!r}; choose one of {known}, or None")
    analyzer: Any = Stems(language)
    return CountVectorizer(analyzer=analyzer, **options)
