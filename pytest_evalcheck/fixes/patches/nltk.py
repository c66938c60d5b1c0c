"""Patches of nltk."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_before

LIBRARY = Library(
    "nltk",
    "3.10.4",
    "3.11",
    patches=(
        Patch(
            mends=("nltk-nist-of-short-texts",),
            says="n-grams that are longer than every hypothesis add nothing to the NIST score",
            edits={
                "nltk.translate.nist_score:corpus_nist": (
                    put_before(
                        "precision = (\nnist_precision_numerator_per_ngram[i]",
                        "if not nist_precision_denominator_per_ngram[i]:\n    continue  # all hypotheses are shorter",
                    ),
                )
            },
            test="""
                from nltk.translate.nist_score import corpus_nist

                for words in ("abcde", "abcd", "a"):
                    texts = [[list(words)]], [list(words)]
                    assert corpus_nist(*texts) == corpus_nist(*texts, len(words))
            """,
        ),
    ),
)
