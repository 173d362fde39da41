import urllib2

from lib.base import SumAction


class OldNames(SumAction):
    def run(self, values):
        return urllib2.quote(str(values))
