from st2client.client import Client

from lib.base import SumAction


class PlatformUser(SumAction):
    def run(self, values):
        return Client()
