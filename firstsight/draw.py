"""Draw the list of packages: ``python -m firstsight.draw INDEX.tsv --seed N`` writes ``firstsight/drawn.tsv``.

INDEX.tsv has a line for each package of the package index: name, version, month of the release, rank among the most
downloaded (or nothing) and summary. A package is eligible if its name or summary has a word of evaluation and a word of
machine learning, its newest release is of the last three years, and its name occurs nowhere in this repository. A third
is drawn from the ranked packages where there are as many, the others from the rest; halves alternate.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
DRAWN = FOLDER / "drawn.tsv"
COUNT = 72
EVALUATION = re.compile(r"\b(metrics?|evaluat\w+|evals?|scor(e|es|er|ers|ing)|benchmark\w*)\b", re.IGNORECASE)
_LEARNING = re.compile(
    r"\b(machine learning|deep learning|models?|llms?|language|classif\w+|segmentation|retriev\w+|recommend\w*"
    r"|forecast\w*|detection|speech|translation|ranking|calibration|predict\w+|generative|images?|clustering|rag|survival|nlp)\b",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"\b(library|package|toolkit|framework|functions?|pytorch|torch|python|implementations?)\b", re.IGNORECASE
)
_OLDEST = "2023-11"


def eligible(
    index: Path, known: frozenset[str], wanted: re.Pattern[str] = EVALUATION, unwanted: re.Pattern[str] | None = None
) -> Iterator[dict[str, str]]:
    """Yield the packages of the index that can be drawn; ``known`` are the words of this repository.

    ``wanted`` takes the place of the words of evaluation, and no package has a word of ``unwanted``.
    """
    with index.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            name, summary = row["name"], row["summary"] or ""
            words = f"{re.sub('[-_.]+', ' ', name)} {summary}"
            fits = all(pattern.search(words) for pattern in (wanted, _LEARNING, _CODE))
            fits = fits and not (unwanted and unwanted.search(words))
            if fits and (row["month"] or "") >= _OLDEST and _normal(name) not in known:
                yield {key: row[key] or "" for key in row}


def _normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name.lower())


def repository_words() -> frozenset[str]:
    """Return the words of all files of the repository but those of this folder, and the parts of dotted names."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=FOLDER.parent, capture_output=True, text=True, check=True)
    words: set[str] = set()
    for name in listed.stdout.split("\0"):
        path = FOLDER.parent / name
        if path.is_file() and not name.startswith("firstsight/"):
            text = path.read_text(encoding="utf-8", errors="ignore").lower()
            words.update(re.findall(r"[a-z0-9]+(?:[-_.]+[a-z0-9]+)*", text))
    return frozenset(_normal(part) for word in words for part in (word, *word.split(".")))


def draw(packages: list[dict[str, str]], seed: int) -> list[dict[str, str]]:
    """Return `COUNT` packages in the order in which they were drawn, each with its half."""
    rank = "rank_among_15000_most_downloaded"
    generator = random.Random(seed)
    ordered = sorted(packages, key=lambda row: row["name"])
    ranked, others = ([row for row in ordered if bool(row[rank]) is wanted] for wanted in (True, False))
    chosen = generator.sample(ranked, min(COUNT // 3, len(ranked)))
    chosen += generator.sample(others, COUNT - len(chosen))
    generator.shuffle(chosen)
    return [{**row, "half": str(index % 2 + 1)} for index, row in enumerate(chosen)]


def main() -> None:
    """Write the list, unless there is one: it is drawn once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    if DRAWN.exists():
        parser.error(f"{DRAWN} was drawn already; a list that is drawn anew is no longer blind")
    packages = list(eligible(given.index, repository_words()))
    drawn = draw(packages, given.seed)
    lines = ["\t".join((row["name"], row["version"], row["half"])) for row in drawn]
    DRAWN.write_text("\n".join(["package\tversion\thalf", *lines, ""]), encoding="utf-8")
    print(f"{len(drawn)} of {len(packages)} packages were drawn with the seed {given.seed}")


if __name__ == "__main__":
    main()
