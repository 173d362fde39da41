"""What a function needs, read and judged, without any process."""

import pytest

from functory.engine.errors import Invalid, Refused
from functory.workers.environments import preload_modules, requirements
from functory.workers.environments.requirements import Policy
from tests.support.version_rows import version_row


@pytest.mark.parametrize(
    ("imports", "wanted"),
    [
        ([], ()),
        (["json", "math as m", "from os import path", "functory", "import xml.dom"], ()),
        (["numpy as np"], ("numpy",)),
        (["import numpy as np"], ("numpy",)),
        (["from bs4 import BeautifulSoup"], ("beautifulsoup4",)),
        (["matplotlib.pyplot as plt"], ("matplotlib",)),
        (["yaml", "PIL", "sklearn", "cv2"], ("opencv-python-headless", "pillow", "pyyaml", "scikit-learn")),
        (["dateutil, dotenv"], ("python-dateutil", "python-dotenv")),
        ([{"name": "PIL", "lib": "pillow"}], ("pillow",)),
        ([{"name": "spam", "lib": "Spam_Eggs[b,A]>=1"}], ("spam-eggs[a,b]>=1",)),
        ([{"name": "json", "lib": "anything"}], ()),
        ([{"name": "requests"}], ("requests",)),
        (["json; print(1)", "_private", "no import at all", "from . import x"], ()),
    ],
)
def test_declared_imports_stand_for_distributions(imports: list, wanted: tuple[str, ...]) -> None:
    assert requirements.normalize_needs([], imports) == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("pandas>=2,<3", "pandas<3,>=2"),
        (" Foo_Bar == 1.0 ", "foo-bar==1.0"),
        ("foo.bar[X, a-b]", "foo-bar[a-b,x]"),
        ("spam; python_version < '4'", 'spam ; python_version < "4"'),
        ("spam (>=1)", "spam>=1"),
    ],
)
def test_a_requirement_is_written_anew_from_its_parts(given: str, wanted: str) -> None:
    assert requirements.normalize_needs([given], []) == (wanted,)
    assert requirements.normalize_needs([wanted], []) == (wanted,)


def test_a_requirement_says_more_than_an_import_of_its_distribution() -> None:
    assert requirements.normalize_needs(["Pillow<11"], ["PIL", "numpy"]) == ("numpy", "pillow<11")


@pytest.mark.parametrize(
    "text",
    [
        "--index-url http://evil.example/simple",
        "-r /etc/passwd",
        "-e .",
        "./local",
        "/tmp/spam-1.0-py3-none-any.whl",
        "spam @ file:///tmp/spam-1.0-py3-none-any.whl",
        "spam @ https://evil.example/spam-1.0-py3-none-any.whl",
        "git+https://evil.example/spam.git",
        "https://evil.example/spam.whl",
        "spam --hash=sha256:00",
        "spam\n--extra-index-url http://evil.example/simple",
        "spam\r--extra-index-url=http://evil.example/simple",
        "spam \\\n-r other",
        "spam # comment",
        "${UV_DEFAULT_INDEX}",
        'spam; python_version == "$HOME"',
        "spam\x00",
        "spam==",
        "two words",
        "",
        "functory",
        "Functory==1",
    ],
)
def test_what_is_more_than_a_name_with_versions_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        requirements.normalize_needs([text], [])
    assert "wrong requirement" in refused.value.what
    with pytest.raises(Invalid):
        requirements.normalize_needs([], [{"name": "spam", "lib": text or "-"}])


@pytest.mark.parametrize(
    ("allow", "deny", "count", "names", "said"),
    [
        (None, [], 9, ["foo-bar"], None),
        (None, ["Foo_Bar"], 9, ["foo-bar"], "no environment may hold foo-bar"),
        (["Foo.Bar"], [], 9, ["foo-bar"], None),
        (["spam"], [], 9, ["foo-bar", "spam"], "foo-bar may not be installed"),
        ([], [], 9, ["spam"], "spam may not be installed"),
        (["spam"], ["spam"], 9, ["spam"], "no environment may hold spam"),
        (None, [], 1, ["a", "b"], "would hold 2 packages"),
        (None, [], 2, ["a", "b"], None),
    ],
)
def test_policy_compares_normalised_names(
    allow: list[str] | None, deny: list[str], count: int, names: list[str], said: str | None
) -> None:
    policy = Policy.of(allow, deny, count)
    if said is None:
        policy.check(names)
        return
    with pytest.raises(Refused, match=said):
        policy.check(names)


def test_equal_locks_are_equal_texts() -> None:
    one, two = "a" * 64, "b" * 64
    written = f"spam==1 \\\n    --hash=sha256:{two} \\\n    --hash=sha256:{one}\nham==2 \\\n    --hash=sha256:{one}\n"
    turned = f"ham==2 --hash=sha256:{one}\nspam==1 --hash=sha256:{one} --hash=sha256:{two}\n"
    assert requirements.canonical(written) == requirements.canonical(turned) == turned
    assert requirements.pinned(turned) == [("ham", "2"), ("spam", "1")]


@pytest.mark.parametrize(
    "line",
    [
        "spam==1",
        "spam @ file:///tmp/spam.whl",
        "--index-url http://x",
        "-e .",
        "spam>=1 --hash=sha256:" + "a" * 64,
    ],
)
def test_a_lock_holds_nothing_but_pinned_packages_with_hashes(line: str) -> None:
    with pytest.raises(Refused):
        requirements.canonical(line)


def test_declared_imports_of_packages_are_worth_a_preload() -> None:
    fields = {
        "declared": {"imports": True},
        "environment": "k",
        "imports": ["json", "pandas as pd", {"name": "PIL"}],
    }
    assert preload_modules(version_row(**fields)) == ("pandas", "PIL")
    assert preload_modules(version_row(**fields | {"environment": None})) == ()
    assert preload_modules(version_row(**fields | {"declared": {}})) == ()
