from __future__ import absolute_import

import json

from st2common.runners.base_action import Action


class WarehouseAction(Action):
    """Knows the supplier."""

    def __init__(self, config, action_service=None):
        super(WarehouseAction, self).__init__(config, action_service)
        self.supplier = self.config["supplier"]

    def order_text(self, sku, amount):
        return json.dumps({"supplier": self.supplier, "sku": sku, "amount": amount})
