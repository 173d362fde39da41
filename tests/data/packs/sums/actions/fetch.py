import urllib.request

from lib.base import SumAction


class Fetch(SumAction):
    def run(self, values):
        return urllib.request.urlopen(values[0]).read()
