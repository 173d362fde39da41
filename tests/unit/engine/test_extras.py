"""The command that installs an extra: from the index, or from the checkout that is installed."""

from importlib import metadata

import pytest

from functory.engine import extras


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'functory[server]'"),
        ('{"url": "https://example.com/functory.whl", "archive_info": {}}', "pip install 'functory[server]'"),
        ('{"url": "file:///src/functory", "dir_info": {}}', "pip install 'functory[server]'"),
        ("no JSON", "pip install 'functory[server]'"),
        (
            '{"url": "file:///my%20src/functory", "dir_info": {"editable": true}}',
            "pip install -e '/my src/functory[server]'",
        ),
    ],
)
def test_a_checkout_installs_its_extras_from_itself(monkeypatch, origin, command):
    # A package that another test has imported may have put its own finder, with a class of its own, before Python's.
    monkeypatch.setattr(type(metadata.distribution("functory")), "read_text", lambda *_: origin)
    assert extras.install_command("server") == command
