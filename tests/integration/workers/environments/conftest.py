"""A package index, machines that use it, and the databases of both."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from functory.workers.environments import uv
from tests.support.wheels import Index

if TYPE_CHECKING:
    from tests.support.world import World
from tests.support.environment_site import Site


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a migrated database: on SQLite, and on PostgreSQL where a test asks for `BOTH`."""
    if getattr(request, "param", "sqlite") == "sqlite":
        file = tmp_path / "functory.db"
        shutil.copy(request.getfixturevalue("migrated_file"), file)
        return f"sqlite:///{file}"
    return request.getfixturevalue("emptied_postgres")


@pytest.fixture
def index() -> Iterator[Index]:
    """An index with a few packages: spam needs ham."""
    opened = Index()
    opened.publish("ham", "1.0")
    opened.publish("ham", "2.0")
    opened.publish("spam", "1.0", requires=["Ham>=1"])
    yield opened
    opened.stop()


@pytest.fixture
def make_site(world: World, index: Index, tmp_path: Path) -> Callable[..., Site]:
    """Makes sites with homes of their own over one database."""
    made: list[Site] = []

    def make(url: str | None = None, **settings: Any) -> Site:
        made.append(Site(world, tmp_path / f"machine{len(made)}", url or index.url, **settings))
        return made[-1]

    return make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """One machine."""
    return make_site()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """What uv was started with so far: `arguments` and `environment` of each run."""
    log = tmp_path / "runs"
    log.touch()
    program = tmp_path / "recorded"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        f"with open({str(log)!r}, 'a') as file:\n"
        "    file.write(json.dumps({'arguments': sys.argv[1:], 'environment': dict(os.environ)}) + '\\n')\n"
        f"os.execv({uv.find_uv_bin()!r}, sys.argv)\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(uv, "find_uv_bin", lambda: str(program))
    return lambda: [json.loads(line) for line in log.read_text().splitlines()]
