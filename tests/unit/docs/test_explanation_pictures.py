"""The stored pictures of docs/explanation are those that the script draws."""

import xml.etree.ElementTree as ElementTree

import pytest

from tests.support import explanation_pictures
from tests.support.explanation_pictures import FOLDER, PICTURES


@pytest.mark.parametrize("name", PICTURES)
def test_the_stored_picture_is_the_drawn_one(name: str) -> None:
    stored = (FOLDER / name).read_text()
    assert stored == PICTURES[name](), "try: python -m tests.support.explanation_pictures"


@pytest.mark.parametrize("name", PICTURES)
def test_all_of_a_picture_is_inside_its_frame(name: str) -> None:
    root = ElementTree.fromstring(PICTURES[name]())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for part in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, wide, tall = (float(part.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0 and x + wide <= width
        assert y >= 0 and y + tall <= height


def test_what_a_text_holds_is_no_markup() -> None:
    assert "&lt;b&gt;" in explanation_pictures.text("note", 0, 0, "<b>")
