"""The documentation is run: its files are written, its commands are called, and what it prints is printed."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.reports.addresses import REPOSITORY, SITE, check_page
from pytest_evalcheck.reports.results import OUTCOMES
from pytest_evalcheck.testing import Project

with suppress(ImportError):
    import torchmetrics  # noqa: F401 - numpy's compiled modules, which it loads, cannot be loaded by each run again

ROOT = Path(__file__).parent.parent
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(document: str) -> list[tuple[str, str]]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)


def follow(project: Project, document: str, *, keep: bool) -> int:
    """Write the Python files of a page and call its pytest commands: with all files so far, or the last ones alone."""
    commands, finished = 0, False
    for language, body in blocks(document):
        first = body.splitlines()[0]
        if language == "python" and first.startswith("# ") and first.endswith(".py"):
            if finished and not keep:
                for old in project.path.glob("*.py"):
                    old.unlink()
                finished = False
            project.write(body, name=first.removeprefix("# "), header="")
        elif language == "console" and first.startswith("$ pytest"):
            command, *texts = body.strip().splitlines()
            _, *arguments = shlex.split(command.removeprefix("$ "))
            if (project.path / "conftest.py").exists():
                result = project.spawn(*arguments)
            else:
                rest = [argument for argument in arguments if argument != "--evalcheck"]
                result = project.run(*rest, evalcheck="--evalcheck" in arguments)
            result.shows(*(text.strip() for text in texts))
            commands, finished = commands + 1, True
    return commands


def mended(source: str, change: str) -> str:
    """The file of an example with the change of the README: its import, and lines in place of others."""
    lines = change.splitlines()
    imports = [line[1:] for line in lines if line.startswith("+from ")]
    new = [line[1:] for line in lines if line.startswith("+") and line[1:] not in imports]
    old = "\n".join(line[1:] for line in lines if line.startswith("-"))
    assert source.count(old) == 1, f"the README changes what its example does not have:\n{old}"
    name, _, rest = source.replace(old, "\n".join(new)).partition("\n")
    return "\n".join([name, *imports, rest])


def test_the_faults_of_the_readme_fail_and_are_mended_by_its_changes(evalcheck_project: Project) -> None:
    pytest.importorskip("torchmetrics")
    # What a run imports is forgotten after it, and the second run would have a model of a forgotten module.
    pytest.importorskip("transformers.models.llama.modeling_llama")
    sources = [body for language, body in blocks("README.md") if language == "python"]
    changes = [body for language, body in blocks("README.md") if language == "diff"]
    (screen,) = [body for language, body in blocks("README.md") if language == "text"]
    checks = {"evalcheck_labels.py": "EC101", "evalcheck_cache.py": "EC302", "evalcheck_devices.py": "EC610"}
    names = [source.splitlines()[0].removeprefix("# ") for source in sources]
    assert names == [*checks]
    for name, source in zip(names, sources, strict=True):
        evalcheck_project.write(source, name=name, header="")
    select = f"--evalcheck-select={','.join(checks.values())}"
    result = evalcheck_project.run(select, code=1).shows(*screen.splitlines())
    result.shows(*(f"fails for {name}::" for name in names))
    for name, source, change in zip(names, sources, changes, strict=True):
        evalcheck_project.write(mended(source, change), name=name, header="")
    evalcheck_project.run(select, code=0)


def test_the_readme_names_the_two_commands() -> None:
    commands = [body.strip() for language, body in blocks("README.md") if language == "console"]
    assert commands == [
        "pip install pytest-evalcheck",
        "python -m pip install -c constraints.txt -e '.[targets]' && pytest --evalcheck -n 2\n"
        "python -m pip install -c constraints.txt -e '.[dev]' && pytest -n 3",
    ]


def test_the_readme_counts_checks_and_findings() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"**{len(shipped())} checks**" in text
    numbers = re.findall(r"(?i)more than (\d+) f", text + (ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    (least,) = {*numbers}
    rows = re.findall(r"^\| \[", (ROOT / "docs" / "findings.md").read_text(encoding="utf-8"), re.M)
    assert int(least) < len(rows) <= int(least) + 20


@pytest.mark.parametrize(
    ("document", "keep", "commands"),
    [
        ("docs/tutorial.md", False, 9),
        ("docs/fixtures.md", False, 4),
        ("docs/extending.md", True, 2),
        ("docs/running.md", False, 1),
        ("docs/records.md", False, 2),
        ("docs/simulate.md", False, 1),
    ],
)
def test_a_page_runs(evalcheck_project: Project, document: str, keep: bool, commands: int) -> None:
    pytest.importorskip("torchmetrics")
    assert follow(evalcheck_project, document, keep=keep) == commands


def test_the_api_page_is_what_the_code_says() -> None:
    page = _from_docs("make_api").page()
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == page, "run: python docs/make_api.py"


def test_the_api_page_has_every_public_name() -> None:
    import pytest_evalcheck as ec
    from pytest_evalcheck import devices, strategies

    headings = set(re.findall(r"^### (\w+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.M))
    expected = {*ec.__all__, *strategies.__all__, *devices.__all__} - {"__version__"}
    assert expected | {"Project", "Result", "evalcheck_project", "evalcheck_device"} <= headings


def test_the_glossary_has_every_outcome() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*([\w ]+)\*\* \|.*\| (passed|failed|xfailed|skipped) \|$", text, re.M)
    assert [outcome for outcome, _ in rows] == list(OUTCOMES)


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/design.md"])
def test_a_page_names_files_that_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    named = re.findall(r"`((?:pytest_evalcheck|tests|fixtures|benchmarks|docs|\.ci)/[\w./-]+)`", text)
    assert not [path for path in named if "<" not in path and not (ROOT / path).exists()]


def test_reports_name_the_pages_of_checks_that_there_are() -> None:
    for check in shipped():
        page = check_page(check.code)
        assert page.startswith(SITE)
        assert (ROOT / "docs" / page.removeprefix(SITE).rstrip("/")).with_suffix(".md").exists(), page
    assert check_page("ACME101") == ""


def test_one_address_is_named_everywhere() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.findall(r"^(?:site|repo)_url: (.*)$", site, re.M) == [SITE, REPOSITORY]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    elsewhere = re.findall(r'"(https://[^"]*evalcheck[^"]*)"', project)
    assert not [url for url in elsewhere if not url.startswith((SITE, REPOSITORY))]


def test_links_of_the_readme_are_absolute_and_lead_to_pages() -> None:
    """PyPI shows the README, where a relative link leads nowhere."""
    text = re.sub(r"(`+).*?\1", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S)
    defined = dict(re.findall(r"^\[([^]]+)\]: (\S+)$", text, re.M))
    assert {*re.findall(r"\[([^]\n]+)\](?![(:])", text)} == {*defined}
    for link in [*re.findall(r"\]\(([^)]+)\)", text), *defined.values()]:
        assert link.startswith("https://"), f"{link}: expected an address, such as {SITE}tutorial.html"
        if link.startswith((SITE, f"{REPOSITORY}/")):
            page, anchor = _source(link)
            assert page.exists(), link
            assert not anchor or anchor in _anchors(page), link


def _source(link: str) -> tuple[Path, str]:
    """The file that an address of the site or of the repository shows, and the anchor in it."""
    address, _, anchor = link.partition("#")
    if address.startswith(SITE):
        page = re.sub(r"(^|/)$", r"\1index.html", address.removeprefix(SITE)).replace("checks/index", "checks/README")
        return (ROOT / "docs" / page).with_suffix(".md"), anchor
    return ROOT / address.removeprefix(f"{REPOSITORY}/blob/main/"), anchor


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_navigation() -> None:
    """The site adds the pages of checks, and those that are outside of docs."""
    listed = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert len(listed) == len({*listed})
    assert {page for page in listed if not page.startswith("project/")} == {
        page for page in pages if not re.fullmatch(r"checks/EC\d{3}\.md", page)
    }


@pytest.mark.parametrize("document", PAGES)
def test_a_list_in_a_numbered_list_is_read_by_the_site(document: str) -> None:
    """Python-Markdown needs four blanks; the forge is content with three."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.M | re.S)
    assert not re.findall(r"^ {2,3}[*-] .*", text, re.M)


def _from_docs(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "docs"))


def test_the_page_of_findings_says_which_library_each_is_of() -> None:
    """The hook of the site adds a column, and a section to the pages of checks."""
    index = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    titles = re.findall(r"^\| \[(.*?)\]\(", index, re.M)
    rows = re.findall(r"^\| ([\w, -]+) \| \[(.*?)\]\(", _from_docs("site_pages").with_libraries(index), re.M)
    assert [title for _, title in rows] == titles
    assert ("torchmetrics", "Members that agree on the first batch are merged for good") in rows
    assert {libraries for libraries, title in rows if title.startswith("ignite")} <= {"ignite"}
    assert "Members that agree" in _from_docs("site_pages").found("EC214")


def test_the_home_page_shows_what_the_readme_shows() -> None:
    shown = {block for block in blocks("docs/index.md") if block[0] != "console"}
    assert {language for language, _ in shown} == {"python", "text", "diff"}
    assert shown <= {*blocks("README.md")}


@pytest.mark.parametrize("document", PAGES)
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in link:
            assert ((ROOT / document).parent / link).exists(), f"{document} links to {link}"


@pytest.mark.parametrize("document", PAGES)
def test_anchors_are_headings(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for link, anchor in re.findall(r"\]\(([^):]*)#([^)]+)\)", text):
        page = ((ROOT / document).parent / link) if link else ROOT / document
        assert anchor in _anchors(page), f"{document} links to {link}#{anchor}"
