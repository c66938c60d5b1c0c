"""Files that people and services look for name one repository and one version."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from pytest_evalcheck.reports.addresses import REPOSITORY, SITE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_metadata_has_the_addresses_of_the_reports():
    urls = PROJECT["urls"]
    assert urls["Homepage"] == REPOSITORY
    assert urls["Documentation"] == SITE
    assert {"Issues", "Changelog"} <= urls.keys()
    assert all(url.startswith((REPOSITORY, SITE)) for url in urls.values())


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    # What the Citation File Format 1.2.0 requires.
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert (citation["repository-code"], citation["url"]) == (REPOSITORY, SITE)


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_an_issue_template_is_a_form(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem == "config":
        assert all({"name", "url", "about"} == link.keys() for link in form["contact_links"])
        return
    assert {"name", "description", "body"} <= form.keys()
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) > 3
    assert all(field["attributes"]["label"] for field in fields)


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff", ".github/workflows/release.yml"])
def test_addresses_are_of_this_project(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(r"https://github\.com/[\w./-]*evalcheck[\w./-]*", text)
    assert all(address.startswith(REPOSITORY) for address in found)


def test_actions_are_pinned_to_commits():
    paths = [*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob("recipes/*github*.yml")]
    uses = [line for path in paths for line in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))]
    assert uses
    assert [one for one in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", one)] == []
