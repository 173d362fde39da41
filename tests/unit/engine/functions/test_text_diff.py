"""The diff of two texts: line by line, and in one piece when that would take too long."""

from functory.engine.functions import text_diff


def test_texts_are_compared_line_by_line() -> None:
    assert text_diff.unified("a\nb\nc", "a\nB\nc", "v1", "v2") == [
        "--- v1", "+++ v2", "@@ -1,3 +1,3 @@", " a", "-b", "+B", " c",
    ]  # fmt: skip
    assert text_diff.unified("a", "a", "v1", "v2") == []


def test_what_is_too_different_is_one_change_between_the_equal_lines() -> None:
    lines = [str(number) for number in range(20_000)]
    before, after = ([*"wxyz", *(f"{line}{c}" for line in lines), "end"] for c in "ab")
    # Lines that alternate cost difflib the most.
    before[4::2] = after[4::2]
    found = text_diff.unified("\n".join(before), "\n".join(after), "v1", "v2")
    removed = [line[1:] for line in found[3:] if line.startswith("-")]
    added = [line[1:] for line in found[3:] if line.startswith("+")]
    assert found[2].startswith("@@ -3,")
    assert found[2].endswith("too different to compare line by line")
    assert found[3:6] == [f" {line}" for line in before[2:5]]
    assert [*before[:5], *removed, "end"] == before
    assert [*after[:5], *added, "end"] == after
