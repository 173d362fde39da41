"""Python text is parsed by many threads at once."""

import ast
import gc
import threading
import time
from collections.abc import Iterator

import pytest

from functory.engine import python_syntax

TEXT = "\n".join(f"def f{n}(a, b=(1, [2, {{3: (4,)}}])):\n    return a + b[0] * {n}" for n in range(20))


@pytest.fixture
def switching() -> Iterator[None]:
    """Lets other threads run in each collection of garbage, of which there are many."""

    def switch(_phase: str, _info: dict[str, int]) -> None:
        time.sleep(0)

    former = gc.get_threshold()
    gc.callbacks.append(switch)
    gc.set_threshold(50)
    yield
    gc.callbacks.remove(switch)
    gc.set_threshold(*former)


@pytest.mark.usefixtures("switching")
def test_threads_that_parse_at_once_get_their_trees() -> None:
    wanted = ast.dump(python_syntax.parse(TEXT))
    found: list[object] = []

    def work() -> None:
        for _ in range(20):
            try:
                found.append(ast.dump(python_syntax.parse(TEXT)) == wanted)
            except SystemError as error:
                found.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [True] * 120


def test_an_expression_has_its_own_tree() -> None:
    assert ast.unparse(python_syntax.parse_expression("list[ 'int' ]")) == "list['int']"


@pytest.mark.parametrize("text", ["x = (", "x\0"], ids=["syntax", "null"])
def test_a_text_that_is_wrong_is_said(text: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        python_syntax.parse(text)
