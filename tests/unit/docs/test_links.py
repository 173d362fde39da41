"""Links of the pages beside docs/, and of the index. ``make docs`` checks those between the pages in docs/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(ROOT.glob("*.md"))
INDEX = ROOT / "docs" / "index.md"

_CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> set[str]:
    """The targets of a page's links, without those to other sites."""
    found = _LINK.findall(_CODE.sub("", page.read_text()))
    return {target for target in found if "://" not in target}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_to_a_file_and_a_heading(page: Path) -> None:
    for target in links(page):
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        assert path.exists(), f"{page.name}: {target} does not exist"
        assert not anchor or anchor in anchors(path), f"{page.name}: {target} has no such heading"


# The changelog also names files of earlier versions.
@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"`([a-z_]+/[\w./-]*)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_index_leads_to_every_page_about_a_use() -> None:
    pages = {f"{page.parent.name}/{page.name}" for page in (ROOT / "docs" / "how-to").glob("*.md")}
    missing = pages - {target.partition("#")[0] for target in links(INDEX)}
    assert not missing, f"name it in docs/index.md, below what it is for: {sorted(missing)}"
