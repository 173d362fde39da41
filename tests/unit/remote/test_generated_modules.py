"""The generated modules of the client follow the description of the API, which a test of the dashboard compares."""

from __future__ import annotations

import json

from tests.support import remote_client


def test_rows_operations_and_the_async_face_are_what_the_description_makes() -> None:
    made = remote_client.modules(json.loads(remote_client.DESCRIPTION.read_text()))
    stale = [str(path) for path, text in made.items() if (remote_client.ROOT / path).read_text() != text]
    assert not stale, f"python -m tests.support.remote_client writes {stale} anew"


def test_every_schema_has_a_name_of_its_own() -> None:
    schemas = json.loads(remote_client.DESCRIPTION.read_text())["components"]["schemas"]
    assert [name for name in schemas if "__" in name] == []
