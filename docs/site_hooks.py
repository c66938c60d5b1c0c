"""Changes that the site makes to the pages of docs/ beside rendering them; mkdocs.yml names this file.

* Pages of the root, such as CONTRIBUTING.md, are pages of the site. Links to other files lead to the repository.
* The index of findings has a column with the library, and assets/findings.js puts a filter above it.
* The page of a check names its findings.
* Codes of checks link to their pages, and the first use of a word of the glossary on a page links to it.
* A page must be read by the forge as it is read here: as many items, cells, headings and blocks of code.
* No page asks a network when it is read.
* Parts of the theme that a screen reader could not name have a name.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from markdown_it import MarkdownIt
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import site_pages  # noqa: E402

OF_THE_ROOT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
}
"""Files outside of docs/ that are pages of the site."""

KINDS = {
    "0": "Every kind",
    "1": "Model wrappers",
    "2": "Metrics",
    "3": "Decoders",
    "4": "Scorers",
    "5": "Loops",
    "6": "Devices",
    "7": "Tasks",
    "8": "Engines",
}
"""The kind of a check, by the first digit of its code."""

COUNTED = {"blockquote", "em", "h1", "h2", "h3", "h4", "img", "li", "ol", "pre", "strong", "td", "ul"}
"""Elements that a page must have as often here as on the forge."""

WITHOUT_WORDS = {
    "api.md", "compare.md", "device-history.md", "device-rules.md", "disagreements.md", "findings.md", "history.md",
    "index.md",
}  # fmt: skip
"""Pages that are read by row, or once."""

UNNAMED = {
    'data-md-component="search" role="dialog"': "Search",
    'data-md-toggle="search" type="checkbox"': "Search",
    'data-md-toggle="drawer" type="checkbox"': "Navigation",
}
"""Parts to which the theme gives no name, and the name."""

Place = tuple[str, str]
"""The path of a page in the repository, and the one in the site."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The checks join the navigation by kind, and links and words are looked up while a page is rendered."""
    (group,) = (entry["Look up"] for entry in config.nav or [] if "Look up" in entry)
    (checks,) = (entry for entry in group if "Checks" in entry)
    checks["Checks"] = [checks["Checks"], *_checks()]
    config["markdown_extensions"].append(_OfThisSite())
    _OfThisSite.repository = config.repo_url or ""
    return config


def _checks() -> Iterator[dict[str, list[dict[str, str]]]]:
    pages = sorted((ROOT / "docs" / "checks").glob("EC*.md"))
    for digit, kind in KINDS.items():
        yield {
            kind: [{_heading(page).replace("_", " "): f"checks/{page.name}"} for page in pages if page.stem[2] == digit]
        }


def _heading(page: Path) -> str:
    with page.open(encoding="utf-8") as file:
        return file.readline().removeprefix("# ").strip()


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The pages of the root join those of docs/."""
    for path, place in OF_THE_ROOT.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """The findings, where a page is about them; and the place of the page, for its links."""
    place = page.file.src_uri
    _OfThisSite.page = next((path for path, of in OF_THE_ROOT.items() if of == place), f"docs/{place}"), place
    if place in ("index.md", "tutorial.md"):
        page.meta["hide"] = ["navigation"]
    if place == "compare.md":
        page.meta["hide"] = ["toc"]
    if place == "findings.md":
        return site_pages.with_libraries(markdown)
    if re.fullmatch(r"checks/EC\d{3}\.md", place):
        return markdown + site_pages.found(Path(place).stem)
    return markdown


def on_page_content(html: str, *, page: Page, **_: object) -> str:
    """Compare the page with what a reader of CommonMark, such as the forge, makes of the same text."""
    theirs = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(page.markdown or "")
    here, there = _tags(html), _tags(theirs)
    if here != there:
        different = ", ".join(
            f"{here[tag]} <{tag}> instead of {there[tag]}" for tag in {*(here | there)} if here[tag] != there[tag]
        )
        raise PluginError(f"{page.file.src_uri} reads otherwise on the forge: {different}")
    return html


def _tags(html: str) -> Counter[str]:
    return Counter(tag for tag in re.findall(r"<(\w+)", html) if tag in COUNTED)


def on_post_page(output: str, *, page: Page, **_: object) -> str:
    """A page that is read asks no network: neither for scripts, styles and pictures, nor for what the forge counts."""
    asked = re.findall(r"""<(?:script|img|iframe|source)[^>]+src="?https?:[^>]*>|<link[^>]+https?:[^>]*>""", output)
    asked = [each for each in asked if 'rel="canonical"' not in each]
    if asked or 'data-md-component="source"' in output:
        raise PluginError(f"{page.file.src_uri} asks a network when it is read: {asked or 'the theme counts stars'}")
    return _named(output, page.file.src_uri)


def on_post_template(output_content: str, *, template_name: str, **_: object) -> str:
    """The page for addresses that are not there has the same parts."""
    return _named(output_content, template_name) if template_name.endswith(".html") else output_content


def _named(html: str, place: str) -> str:
    """Parts of the theme without a name get one, for those who cannot see what they are."""
    for part, name in UNNAMED.items():
        if html.count(part) != 1:
            raise PluginError(f"{place}: {part} is there {html.count(part)} times; the theme has changed")
        html = html.replace(part, f'{part} aria-label="{name}"')
    return html


class _OfThisSite(Extension):
    """Looks up the links and the words of a page."""

    page: Place = ("", "")
    repository = ""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name that Markdown calls
        # After inline patterns (20) have made links, and before mkdocs looks up anchors (5) and addresses (0).
        md.treeprocessors.register(_Links(md), "links of the repository", 8)
        md.treeprocessors.register(_Words(md), "words of the glossary", 7)


class _Links(Treeprocessor):
    """Links between files of the repository become links between pages of the site, or to the repository.

    What is called by the name of its file is called by its heading here, where readers see no files.
    """

    def run(self, root: Element) -> None:
        path, place = _OfThisSite.page
        for link in root.iter("a"):
            address, mark, anchor = (link.get("href") or "").partition("#")
            if address and "://" not in address and not address.startswith("mailto:"):
                target = posixpath.normpath(posixpath.join(posixpath.dirname(path), address))
                link.set("href", _address(target, posixpath.dirname(place)) + mark + anchor)
                names = (address, target, target.removeprefix("docs/"))
                if (
                    link.text in names
                    and not len(link)
                    and (ROOT / target).suffix == ".md"
                    and (ROOT / target).exists()
                ):
                    link.text = _heading(ROOT / target)


def _address(target: str, folder: str) -> str:
    """The address of a file of the repository, in a page of this folder of the site."""
    if (ROOT / target).is_dir() and (ROOT / target / "README.md").exists() and target.startswith("docs/"):
        target += "/README.md"
    place = OF_THE_ROOT.get(target, target.removeprefix("docs/") if target.startswith("docs/") else "")
    if place and not target.endswith(".py"):
        return posixpath.relpath(place, folder or ".")
    if not (ROOT / target).exists():
        return target
    return f"{_OfThisSite.repository}/{'tree' if (ROOT / target).is_dir() else 'blob'}/main/{target}"


class _Words(Treeprocessor):
    """Links from codes of checks to their pages and, on pages of prose, from first uses of words to the glossary."""

    def run(self, root: Element) -> None:
        path, place = _OfThisSite.page
        parts = [part for tag in ("p", "li", "td") for part in root.iter(tag)]
        folder = posixpath.dirname(place)
        for code in (code for part in parts if part.tag == "td" for code in part.iter("code")):
            if len(code.text or "") < 28:
                code.set("class", "short")  # an option stays on one line
        if not place.startswith("checks/"):
            for part in parts:
                _link(part, re.compile(r"\bEC\d{3}\b"), lambda code: _to_check(code, folder))
        if place == "glossary.md":
            for word in (word for cell in root.iter("td") for word in cell.iter("strong")):
                word.set("id", _anchor("".join(word.itertext())))
        elif posixpath.dirname(path) == "docs" and place not in WITHOUT_WORDS:
            left = site_pages.meanings()
            longest = "|".join(sorted(left, key=len, reverse=True))
            for part in (part for part in parts if part.tag != "td"):
                _link(
                    part, re.compile(rf"(?<![\w-])({longest})s?(?![\w-])", re.I), lambda word: _to_glossary(word, left)
                )


def _to_check(code: re.Match[str], folder: str) -> Element | None:
    page = f"checks/{code[0]}.md"
    exists = (ROOT / "docs" / page).exists()
    return Element("a", {"href": posixpath.relpath(page, folder or ".")}) if exists else None


def _to_glossary(found: re.Match[str], left: dict[str, str]) -> Element | None:
    word = found[1].lower()
    if word not in left:
        return None
    return Element("a", {"href": f"glossary.md#{_anchor(word)}", "class": "word", "title": left.pop(word)})


def _anchor(word: str) -> str:
    return f"word-{word.replace(' ', '-')}"


def _link(parent: Element, pattern: re.Pattern[str], make: Callable[[re.Match[str]], Element | None]) -> None:
    """Make links in the text of an element, and of what emphasises a part of it, where ``make`` returns one."""
    _link_text(parent, None, pattern, make)
    for child in list(parent):
        if child.tag in ("em", "strong"):
            _link(child, pattern, make)
        _link_text(parent, child, pattern, make)


def _link_text(
    parent: Element, after: Element | None, pattern: re.Pattern[str], make: Callable[[re.Match[str]], Element | None]
) -> None:
    """The same for the text between this child, or the begin, and the next one."""
    text, begun = (parent.text if after is None else after.tail) or "", 0
    at = 0 if after is None else list(parent).index(after) + 1
    for found in pattern.finditer(text):
        if (link := make(found)) is None:
            continue
        before = text[begun : found.start()]
        if after is None:
            parent.text = before
        else:
            after.tail = before
        link.text, link.tail, begun = found[0], text[found.end() :], found.end()
        parent.insert(at, link)
        after, at = link, at + 1
