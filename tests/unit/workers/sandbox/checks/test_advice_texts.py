"""No text of the program advises to run functions without a sandbox: a reader in a hurry would follow it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import functory

_PACKAGE = Path(functory.__file__).parent
_SWITCH = re.compile(r"unsafe.no.sandbox|i-understand", re.IGNORECASE)
# A text may say that the switch is set, that it is to be unset, and what it contradicts; the settings describe it.
_ALLOWED = re.compile(
    r"unset FUNCTORY_UNSAFE_NO_SANDBOX(:|$)|is set|turns the sandbox off, and|allows them|^unsafe_no_sandbox$"
)


def _texts(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    docs = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs
    }


def test_no_text_advises_to_switch_the_sandbox_off() -> None:
    advice = [
        f"{path.relative_to(_PACKAGE)}: {text}"
        for path in _PACKAGE.rglob("*.py")
        if path != _PACKAGE / "engine" / "settings.py"
        for text in _texts(path)
        if _SWITCH.search(text) and not _ALLOWED.search(text)
    ]
    # Compared with the setting's value, never shown.
    assert advice == ["workers/sandbox/checks/startup.py: i-understand"]
