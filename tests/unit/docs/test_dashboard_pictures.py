"""The pictures of the dashboard in the documentation stay few and small."""

from tests.support import dashboard_pictures


def test_each_picture_is_small_and_is_shown() -> None:
    page = (dashboard_pictures.FOLDER / "open-the-dashboard.md").read_text()
    stored = sorted(dashboard_pictures.FOLDER.glob("*.webp"))
    assert stored
    for picture in stored:
        assert picture.stat().st_size <= dashboard_pictures.MAX_BYTES, picture.name
        assert f"]({picture.name})" in page, f"{picture.name} is on no page"
