"""Checks of a trigger when it is saved: do its paths, names and types exist, and does its input fit its function?

What can never work is refused, what may be a mistake is a warning. Routing does none of this.
"""

from functory.triggers.save_checks.check import check, find_problems
from functory.triggers.save_checks.problems import Problem
from functory.triggers.save_checks.surroundings import Surroundings

__all__ = ["Problem", "Surroundings", "check", "find_problems"]
