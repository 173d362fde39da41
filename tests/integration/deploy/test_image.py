"""deploy/Dockerfile: what it copies is there and let in, and its last stage has no tools and no root."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import build_context
from tests.support.clean_root import USER

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def steps(stage: int) -> list[tuple[str, str]]:
    """The instructions of a stage, with their lines joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M).replace("\\\n", " ")
    stages = re.split(r"^(?=FROM )", text, flags=re.M)[1:]
    found = [line.partition(" ") for line in stages[stage].splitlines() if line.strip()]
    return [(word, " ".join(rest.split())) for word, _, rest in found]


def test_everything_that_is_copied_is_in_the_repository_and_let_in() -> None:
    files = build_context.files()
    for stage in (0, 1):
        for word, rest in steps(stage):
            if word == "COPY" and not rest.startswith("--from"):
                *sources, _ = rest.split()
                for source in sources:
                    assert any(file == source or file.startswith(f"{source}/") for file in files), source


@pytest.mark.parametrize(
    "path",
    [
        "deploy/secrets/database_url",
        ".git/config",
        ".venv/bin/python",
        "tests/conftest.py",
        "functory/.functory/secret.key",
        "functory/engine/__pycache__/a.pyc",
        # Built in the image, from its own sources.
        "functory/dashboard/static/index.html",
        "dashboard/node_modules/preact/package.json",
    ],
)
def test_what_the_image_must_not_have_does_not_reach_the_build(path: str) -> None:
    assert not build_context.let_in(path)


def test_what_the_dashboard_is_built_from_is_let_in() -> None:
    built = set(re.findall(r"readFileSync\(\"([\w.-]+)\"", (ROOT / "dashboard" / "build.mjs").read_text()))
    for name in {*built, "build.sh", "build.mjs", "types.mjs", "src/main.tsx"}:
        if (ROOT / "dashboard" / name).is_file() and not name.startswith("."):
            assert build_context.let_in(f"dashboard/{name}"), name


def test_the_last_stage_runs_as_another_user_and_has_no_tool_that_builds() -> None:
    last = steps(2)
    runs = " ".join(rest for word, rest in last if word == "RUN")
    assert not re.search(r"pip install|curl|npm|gcc|build-essential|-dev\b", runs) and "pip uninstall" in runs
    assert f"--uid {USER} " in runs
    assert [rest for word, rest in last if word == "USER"] == [str(USER)]
    assert [rest for word, rest in last if word == "COPY"] == ["--from=build /opt/functory /opt/functory"]
    assert ("ENTRYPOINT", '["functory"]') in last


def test_the_image_can_back_up_the_database_of_the_compose_file() -> None:
    server = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["postgres"]["image"]
    (client,) = re.findall(r"apt-get install --yes --no-install-recommends (\S+) &&", DOCKERFILE)
    assert client == f"postgresql-client-{server.removeprefix('postgres:')}"


def test_every_base_image_has_a_version_and_both_pythons_are_the_same() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    assert all(re.search(r":\d", base) for base in bases)
    assert bases[1] == bases[2]


def test_the_lock_of_the_image_has_every_extra_of_a_deployment_in_the_versions_of_the_tests() -> None:
    image, dev = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "locks" / f"{name}.txt").read_text(), re.M))
        for name in ("image", "dev")
    )
    assert image.items() <= dev.items()
    assert {
        "psycopg",
        "psycopg-binary",
        "redis",
        "uvicorn",
        "authlib",
        "opentelemetry-sdk",
        "uv",
    } <= image.keys()
    assert not {"pytest", "litellm"} & image.keys()


def test_a_linter_of_dockerfiles_finds_nothing(tmp_path: Path) -> None:
    hadolint = Path(sys.executable).parent / "hadolint"

    def lint(text: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "Dockerfile"
        file.write_text(text)
        return subprocess.run([hadolint, "--no-color", file], capture_output=True, text=True)

    found = lint(DOCKERFILE)
    assert found.returncode == 0, found.stdout
    assert lint(DOCKERFILE.replace("python:3.13-slim-trixie", "python")).returncode == 1, (
        "it would find something"
    )
