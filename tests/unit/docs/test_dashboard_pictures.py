"""The pictures of the dashboard in the documentation stay few and small."""

from tests.support import dashboard_pictures


def test_each_picture_is_small_and_is_shown() -> None:
    pages = [file.read_text() for file in dashboard_pictures.FOLDER.glob("*.md")]
    stored = sorted(dashboard_pictures.FOLDER.glob("*.webp"))
    assert stored
    for picture in stored:
        assert picture.stat().st_size <= dashboard_pictures.MAX_BYTES, picture.name
        assert any(f"]({picture.name})" in page for page in pages), f"{picture.name} is on no page"


def test_readme_and_the_home_of_the_documentation_begin_with_a_picture_in_both_themes() -> None:
    docs = dashboard_pictures.FOLDER.parent
    for page, folder in ((docs.parent / "README.md", "docs/"), (docs / "index.md", "")):
        first = page.read_text().split("\n\n")[1]
        for theme, file in dashboard_pictures.HOME.items():
            assert file.stat().st_size <= dashboard_pictures.MAX_BYTES, file.name
            source = "src" if theme == "light" else '(prefers-color-scheme: dark)" srcset'
            assert f'{source}="{folder}{file.name}"' in first, page.name
