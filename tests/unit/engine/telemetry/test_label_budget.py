"""Label budgets: which names become label values."""

from functory.engine.telemetry.label_budget import OTHER, LabelBudget


def test_the_first_names_are_labels_and_later_ones_are_counted_together() -> None:
    budget = LabelBudget(2)
    assert [budget(name) for name in ("a", "b", "c", "a", "c")] == ["a", "b", OTHER, "a", OTHER]


def test_pinned_names_come_before_all_others() -> None:
    budget = LabelBudget(2)
    budget.restrict("on", ["z", "z"])
    assert [budget(name) for name in ("a", "b", "z")] == ["a", OTHER, "z"]


def test_only_pinned_names_or_none_are_labels_when_the_setting_says_so() -> None:
    budget = LabelBudget(2)
    budget("a")
    budget.restrict("pinned", ["z"])
    assert [budget(name) for name in ("a", "z")] == [OTHER, "z"]
    budget.restrict("off", ["z"])
    assert [budget(name) for name in ("a", "z")] == [OTHER, OTHER]


def test_no_more_names_are_pinned_than_the_budget_has() -> None:
    budget = LabelBudget(2)
    budget.restrict("pinned", ["x", "y", "z"])
    assert [budget(name) for name in ("x", "y", "z")] == ["x", "y", OTHER]
