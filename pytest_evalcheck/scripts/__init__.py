"""Stand-alone scripts of failures: the calls that a replay makes into the code under test, as straight-line code.

The process of a replay imports the suite and the file of the target through `rewriting`, so that each call, attribute
and index of theirs goes through a `Tape`. What the failing comparison depends on is written as a script (`text`), which
imports neither this package nor pytest nor Hypothesis.
"""
