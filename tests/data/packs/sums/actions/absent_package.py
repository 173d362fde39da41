import nosuchpackage

from lib.base import SumAction


class AbsentPackage(SumAction):
    def run(self, values):
        return nosuchpackage.sum(values)
