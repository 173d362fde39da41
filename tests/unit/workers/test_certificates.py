"""Which file of certificate authorities functions get: the setting's, else one that the environment names."""

from __future__ import annotations

from pathlib import Path

import pytest

from functory.engine.errors import Invalid
from functory.workers.certificates import VARIABLES, find_ca_file
from tests.support.network_world import Authority


@pytest.fixture
def authorities(tmp_path: Path) -> Path:
    return Path(Authority(tmp_path).path)


def test_the_setting_counts_before_the_environment_and_links_are_followed(tmp_path, authorities):
    link = tmp_path / "link.pem"
    link.symlink_to(authorities)
    assert find_ca_file(link, {"SSL_CERT_FILE": "/elsewhere"}) == str(authorities)


@pytest.mark.parametrize("name", [*VARIABLES, "PIP_CERT"])
def test_each_variable_names_one(name, authorities):
    assert find_ca_file(None, {name: str(authorities)}) == str(authorities)


def test_the_machines_own_are_used_without_any(tmp_path):
    assert find_ca_file(None, {}) == find_ca_file(None, {"SSL_CERT_FILE": ""}) == ""
    assert find_ca_file(None, {"SSL_CERT_FILE": str(tmp_path / "gone")}) == ""


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        (None, 0o644, "it is no file"),
        ("no certificate", 0o644, "no certificate in PEM form"),
        ("", 0o644, "no certificate in PEM form"),
        ("private", 0o600, "functions run as other users"),
    ],
)
def test_a_setting_that_functions_cannot_use_is_refused(tmp_path, text, mode, reason):
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)
    with pytest.raises(Invalid, match=reason) as refused:
        find_ca_file(file, {})
    assert "try: set FUNCTORY_CA_FILE to" in str(refused.value)
