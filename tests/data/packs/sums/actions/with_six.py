import six

from lib.base import SumAction


class WithSix(SumAction):
    def run(self, values):
        return six.text_type(values)
