"""A dashboard: its rows of panels, the variables that all of them have, and links to the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    AnnotationContainer,
    AnnotationQuery,
    DashboardCursorSync,
    DashboardLinkType,
    GridPos,
    Panel,
    RowPanel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from tests.support.grafana import promql
from tests.support.grafana.panels import SOURCE

TAG = "functory"
# Columns of Grafana's grid.
WIDTH = 24
JOBS = "label_values(functory_build_info, job)"
FUNCTIONS = 'label_values(functory_execution_duration_seconds_count{job=~"$job"}, function)'


def board(
    name: str, title: str, text: str, rows: Mapping[str, Sequence[Panel]], *, by_function: bool = False
) -> str:
    """The JSON of a dashboard. ``by_function`` adds the variable ``function``."""
    built = (
        dashboard.Dashboard(f"Functory / {title}")
        .uid(f"functory-{name}")
        .description(text)
        .tags([TAG])
        .time("now-3h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .editable()
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_choice("job", "Deployment", JOBS))
    )
    if by_function:
        built.with_variable(_choice("function", "Function", FUNCTIONS))
    built.with_variable(
        dashboard.TextBoxVariable("functory_url")
        .label("Functory's address")
        .default_value("http://127.0.0.1:7400")
    )
    others = dashboard.DashboardLink("Functory").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    own = dashboard.DashboardLink("Open Functory").type(DashboardLinkType.LINK).url("${functory_url}/")
    built.link(others.include_vars(True).keep_time(True)).link(own.target_blank(True))
    whole = built.build()
    whole.annotations = AnnotationContainer(list_val=[_alerts(), _Activations()])
    whole.panels = list(_placed(rows))
    return json.dumps(whole, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _choice(name: str, label: str, values: str) -> dashboard.QueryVariable:
    """A variable with one, several or all values."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(values)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )


def _alerts() -> AnnotationQuery:
    """Marks the time since when an alert fires."""
    return AnnotationQuery(
        name="Alerts",
        datasource=SOURCE,
        enable=True,
        icon_color="red",
        expr='ALERTS{alertname=~"Functory.*", alertstate="firing", job=~"$job|"}',
    )


class _Activations(AnnotationQuery):
    """Marks when a version of a function became active. Grafana takes the value of the series as the time."""

    def __init__(self) -> None:
        super().__init__(
            name="Function updates",
            datasource=SOURCE,
            enable=True,
            icon_color="blue",
            # Grafana's times are milliseconds.
            expr=f"{promql.series('function_activated_timestamp_seconds')} * 1000",
        )

    def to_json(self) -> dict[str, object]:
        """Add what the library does not know."""
        texts = {"titleFormat": "{{function}}", "textFormat": "another version is active", "step": "60s"}
        return super().to_json() | texts | {"useValueForTime": True}


def _placed(rows: Mapping[str, Sequence[Panel]]) -> Iterator[Panel | RowPanel]:
    """All panels with their numbers and places: from left to right, and on when a line is full."""
    number = y = 0
    for title, panels in rows.items():
        number += 1
        yield RowPanel(id_val=number, title=title, grid_pos=GridPos(h=1, w=WIDTH, x=0, y=y))
        y += 1
        x = height = 0
        for panel in panels:
            place = panel.grid_pos
            assert place is not None
            if x + place.w > WIDTH:
                x, y, height = 0, y + height, 0
            number += 1
            panel.id_val = number
            panel.grid_pos = GridPos(h=place.h, w=place.w, x=x, y=y)
            yield panel
            x, height = x + place.w, max(height, place.h)
        y += height
