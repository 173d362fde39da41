"""The kinds of panels that the dashboards have, each with its unit, thresholds and a sentence that explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Panel,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
GREEN, ORANGE, RED = "green", "orange", "red"

# The colours of states and results, the same in all dashboards, and the legends that show them.
COLOURED = ("{{status}}", "{{state}}", "{{result}}", "{{status_class}}")
COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "timed_out": "orange",
    "crashed": "dark-red",
    "dead": "dark-red",
    "cancelled": "#8e8e8e",
    "running": "blue",
    "queued": "yellow",
    "2xx": "green",
    "4xx": "orange",
    "5xx": "red",
}
ANSWERS = {"0": ("away", RED), "1": ("answers", GREEN)}
# The height of a figure, and of all other panels, in units of Grafana's grid (30 pixels).
FIGURE_HEIGHT, HEIGHT = 4, 8


def thresholds(warning: float | None, critical: float | None, *, low: bool) -> Builder[Any]:
    """Steps from green to red; ``low``: a value below is the bad one."""
    steps = [Threshold(color=RED if low else GREEN)]
    if warning is not None:
        steps.append(Threshold(value=warning, color=ORANGE))
    if critical is not None:
        steps.append(Threshold(value=critical, color=GREEN if low else RED))
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def query(expression: str, legend: str = "", ref: str = "A") -> prometheus.Dataquery:
    """A query over the time range of the dashboard."""
    built = prometheus.Dataquery().expr(expression).ref_id(ref).datasource(SOURCE)
    return built.legend_format(legend or "__auto")


def link(title: str, address: str) -> dashboard.DashboardLink:
    """A link from a value to Functory's own dashboard."""
    url = f"${{functory_url}}{address}"
    return dashboard.DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank(True)


def figure(
    title: str,
    expression: str,
    text: str,
    *,
    unit: str = "short",
    warning: float | None = None,
    critical: float | None = None,
    low: bool = False,
    width: int = 3,
    address: str = "",
) -> Panel:
    """One number whose colour says whether something is wrong, with its course behind it."""
    panel = (
        stat.Panel()
        .title(title)
        .description(text)
        .datasource(SOURCE)
        .with_target(query(expression))
        .unit(unit)
        .color_mode(kinds.BigValueColorMode.BACKGROUND_SOLID)
        .graph_mode(kinds.BigValueGraphMode.AREA)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_scheme(dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .thresholds(thresholds(warning, critical, low=low))
        .no_value("no data")
        .height(FIGURE_HEIGHT)
        .span(width)
    )
    if address:
        panel.data_links([link("Open in Functory", address)])
    return panel.build()


def course(
    title: str,
    expressions: Mapping[str, str],
    text: str,
    *,
    unit: str = "short",
    stacked: bool = False,
    critical: float | None = None,
    width: int = 12,
    address: str = "",
) -> Panel:
    """The course of some values: legend to expression. ``critical`` draws a red line."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(text)
        .datasource(SOURCE)
        .targets([query(e, legend, chr(ord("A") + n)) for n, (legend, e) in enumerate(expressions.items())])
        .unit(unit)
        .min(0)
        .line_width(1)
        .fill_opacity(50 if stacked else 8)
        .show_points(kinds.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(kinds.LegendDisplayMode.TABLE)
            .placement(kinds.LegendPlacement.RIGHT if width >= 12 else kinds.LegendPlacement.BOTTOM)
            .calcs(["lastNotNull", "max"])
            .show_legend(True)
        )
        .tooltip(
            common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(kinds.SortOrder.DESCENDING)
        )
        .color_scheme(dashboard.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
        .height(HEIGHT)
        .span(width)
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL))
    if critical is not None:
        panel.thresholds(thresholds(None, critical, low=False))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(kinds.GraphTresholdsStyleMode.DASHED))
    coloured = any(label in legend for label in COLOURED for legend in expressions)
    for name, colour in COLOURS.items() if coloured else ():
        panel.override_by_name(
            name, [DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour})]
        )
    if address:
        panel.data_links([link("Open in Functory", address)])
    return panel.build()


def ranking(
    title: str,
    expression: str,
    columns: Sequence[str],
    value: str,
    text: str,
    *,
    unit: str = "short",
    width: int = 8,
    address: str = "",
    words: Mapping[str, tuple[str, str]] = {},
) -> Panel:
    """A table of the labels ``columns`` and a value, the largest first. A row leads to ``address``.

    ``words``: words with their colours in the place of values.
    """
    hidden = dict.fromkeys(("Time", "__name__", "job"), True)
    order = {name: place for place, name in enumerate((*columns, "Value"))}
    if words:
        options = {value: {"text": text, "color": colour} for value, (text, colour) in words.items()}
        look = [
            DynamicConfigValue(id_val="mappings", value=[{"type": "value", "options": options}]),
            DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
        ]
    else:
        bars = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
        look = [
            DynamicConfigValue(id_val="unit", value=unit),
            DynamicConfigValue(id_val="custom.cellOptions", value=bars),
            DynamicConfigValue(id_val="color", value={"mode": "continuous-BlYlRd"}),
        ]
    panel = (
        table.Panel()
        .title(title)
        .description(text)
        .datasource(SOURCE)
        .with_target(query(expression).instant().format(PromQueryFormat.TABLE))
        .with_transformation(
            DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": hidden,
                    "indexByName": order,
                    "renameByName": {"Value": value},
                },
            )
        )
        .sort_by([common.TableSortByFieldState().display_name(value).desc(True)])
        .override_by_name(value, look)
        .no_value("none")
        .height(HEIGHT)
        .span(width)
    )
    if address:
        target = [{"title": "Open in Functory", "url": f"${{functory_url}}{address}", "targetBlank": True}]
        panel.override_by_name(columns[0], [DynamicConfigValue(id_val="links", value=target)])
    return panel.build()


def spread(title: str, expression: str, text: str, *, unit: str = "s", width: int = 12) -> Panel:
    """A heat map of a histogram."""
    return (
        heatmap.Panel()
        .title(title)
        .description(text)
        .datasource(SOURCE)
        .with_target(query(expression, "{{le}}").format(PromQueryFormat.HEATMAP))
        .calculate(False)
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64))
        .y_axis(heatmap.YAxisConfig().unit(unit))
        .height(HEIGHT)
        .span(width)
        .build()
    )
