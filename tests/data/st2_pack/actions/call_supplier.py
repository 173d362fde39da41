from st2common.runners.base_action import Action


class CallSupplier(Action):
    def run(self, who):
        return "calling %s with a key of %d characters" % (who, len(self.config["api_key"]))
