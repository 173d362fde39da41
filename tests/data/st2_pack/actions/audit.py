from st2common.runners.base_action import Action as Base

TEXT = """two
lines"""


def summary(status, name):
    return "%s: %s" % (name, status)


class Audit(Base):
    def run(self, status, name, result):
        seen = self.action_service.get_value("seen") or 0
        self.action_service.set_value("seen", seen + 1)
        if status == "nonsense":
            return (False, "a status that is none")
        return {"line": summary(status, name), "text": TEXT, "result": result, "seen": seen + 1}


if __name__ == "__main__":
    print(summary("succeeded", "by hand"))
