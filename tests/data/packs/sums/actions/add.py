from lib.base import SumAction

import shared_sums

__all__ = ["AddAction"]


class AddAction(SumAction):
    def run(self, values):
        return self.round(shared_sums.total(values))
