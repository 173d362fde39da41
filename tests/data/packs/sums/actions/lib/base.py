from st2common.runners.base_action import Action

__all__ = ["SumAction"]

from lib import rounding


class SumAction(Action):
    def round(self, value):
        return rounding.up(value)
