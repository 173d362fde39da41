"""Packages behind a private certificate authority, such as that of a proxy which opens TLS, and without a home."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.workers.environments.uv import Uv
from tests.support.environment_site import Site
from tests.support.network_world import Authority
from tests.support.wheels import Index
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

SYSTEM = ("UV_SYSTEM_CERTS", "UV_NATIVE_TLS")
NAMED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", *SYSTEM)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """An authority of the test's own; no variable names one."""
    for name in NAMED:
        monkeypatch.delenv(name, raising=False)
    return Authority(tmp_path)


@pytest.fixture
def private(authority: Authority) -> Iterator[Index]:
    """An index whose certificate is of that authority."""
    opened = Index(tls=authority.server("127.0.0.1"))
    opened.publish("ham", "1.0")
    yield opened
    opened.stop()


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_an_index_of_a_private_authority_works_with_each_variable_of_pip(
    name: str,
    world: World,
    tmp_path: Path,
    private: Index,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(world, tmp_path / "machine", private.url)
    refused = site.save("ham")
    assert "invalid peer certificate" in refused["environment_error"]
    assert "--system-certs" not in refused["environment_error"]
    assert "name a file with its authority in SSL_CERT_FILE" in refused["environment_error"]
    monkeypatch.setenv(name, str(authority.path))
    assert site.save("ham")["environment_error"] is None


def test_the_authorities_of_the_setting_count_before_those_of_the_environment(
    world: World, tmp_path: Path, private: Index, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", Authority(tmp_path / "other").path)
    site = Site(world, tmp_path / "machine", private.url, ca_file=Path(authority.path))
    assert site.save("ham")["environment_error"] is None


def test_uv_trusts_the_authorities_of_the_machine(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = Uv(tmp_path / "cache")
    paths = ssl.get_default_verify_paths()

    def machine(cafile: str | None, capath: str | None) -> dict[str, str]:
        monkeypatch.setattr(
            ssl, "get_default_verify_paths", lambda: paths._replace(cafile=cafile, capath=capath)
        )
        made = uv._environment(tmp_path)
        return {name: made[name] for name in NAMED if name in made}

    empty = tmp_path / "empty"
    empty.mkdir()
    assert machine(str(authority.path), None) == dict.fromkeys(SYSTEM, "true")
    assert machine(None, str(tmp_path)) == dict.fromkeys(SYSTEM, "true")
    assert machine(None, str(empty)) == machine(None, None) == {}
    monkeypatch.setenv("UV_SYSTEM_CERTS", "false")
    assert machine(str(authority.path), None) == {"UV_SYSTEM_CERTS": "false"}


def test_packages_are_installed_where_the_home_of_the_user_cannot_be_written(
    world: World, tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Below a file nothing can be made, not even by root.
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    assert Site(world, tmp_path / "machine", index.url).save("ham")["environment_error"] is None
