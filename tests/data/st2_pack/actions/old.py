from st2common.runners.base_action import Action


class Old(Action):
    def run(self):
        print "Python 2"
