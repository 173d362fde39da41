from lib.base import WarehouseAction
import json


class OrderAction(WarehouseAction):
    # Runs for every low stock.
    def run(self, sku, amount, note, urgent=False):
        self.logger.info("ordering %s", sku)
        return (True, {"order": json.loads(self.order_text(sku, amount)), "note": note, "urgent": urgent})
