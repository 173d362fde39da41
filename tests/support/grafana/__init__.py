"""Makes Grafana's dashboards in deploy/grafana/dashboards: ``python -m tests.support.grafana``."""
