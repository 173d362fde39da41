from lib.base import *  # noqa: F403


class WithUnit(SumAction):  # noqa: F405
    def run(self, values):
        return "%s %s" % (sum(values), self.config["unit"])
