from st2client.client import Client
from st2common.runners.base_action import Action


class Admin(Action):
    def run(self):
        return Client()
