"""The kinds of panel that the dashboards are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.grafana.source.queries import SOURCE, Query

GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "green", "yellow", "orange", "red", "blue", "gray"
Panel = timeseries.Panel | stat.Panel | table.Panel | heatmap.Panel | statetimeline.Panel
LETTERS = "ABCDEFGHIJ"  # Grafana's names of queries


def graph(title: str, about: str, unit: str, *queries: Query, span: int = 8, most: float | None = None) -> Panel:
    """Lines over time, from 0 where nothing is negative."""
    panel = (
        timeseries.Panel()
        .unit(unit)
        .line_width(1)
        .fill_opacity(5)
        .show_points(VisibilityMode.NEVER)
        .legend(_legend())
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if most is not None:
        panel.min(0).max(most)
    return _filled(panel, title, about, queries, span, 8)


def number(
    title: str, about: str, unit: str, query: Query, *, steps: Sequence[tuple[float | None, str]] = (), span: int = 3,
    spark: bool = False,
) -> Panel:  # fmt: skip
    """One value now. `steps`: from this value on this colour; the first from None."""
    panel = (
        stat.Panel()
        .unit(unit)
        .graph_mode(BigValueGraphMode.AREA if spark else BigValueGraphMode.NONE)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .thresholds(_thresholds(steps or [(None, BLUE)]))
    )
    return _filled(panel, title, about, [query], span, 4)


def words(title: str, about: str, query: Query, meaning: dict[int, tuple[str, str]], *, span: int = 3) -> Panel:
    """A value that stands for a word now. `meaning`: value -> word and colour."""
    panel = (
        stat.Panel()
        .unit("none")
        .graph_mode(BigValueGraphMode.NONE)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .mappings([_mapping(meaning)])
    )
    return _filled(panel, title, about, [query], span, 4)


def strip(title: str, about: str, query: Query, meaning: dict[int, tuple[str, str]], *, span: int = 24) -> Panel:
    """Words over time, a strip for each series."""
    panel = (
        statetimeline.Panel()
        .unit("none")
        .show_value(VisibilityMode.AUTO)
        .merge_values(True)
        .row_height(0.8)
        .fill_opacity(80)
        .mappings([_mapping(meaning)])
        .legend(_legend())
    )
    return _filled(panel, title, about, [query], span, 6)


def heat(title: str, about: str, unit: str, query: Query, *, span: int = 24, height: int = 10) -> Panel:
    """A row for each series, coloured by its value over time."""
    panel = (
        heatmap.Panel()
        .unit(unit)
        .calculate(False)
        .color(
            heatmap.HeatmapColorOptions()
            .mode(HeatmapColorMode.SCHEME)
            .scheme("Turbo")
            .fill("dark-orange")
            .exponent(0.5)
            .steps(64)
            .reverse(False)
        )
        .cell_gap(0)
        .filter_values(heatmap.FilterValueRange().le(-1))  # a GPU at 0 % is the one to see
        .cell_values(heatmap.CellValues().unit(unit))
        .show_legend()
        .mode(TooltipDisplayMode.SINGLE)
        .show_color_scale(True)
    )
    return _filled(panel, title, about, [query], span, height)


def rows(
    title: str, about: str, queries: Iterable[tuple[str, str, str]], *, key: Sequence[str], span: int = 24
) -> Panel:
    """A table of what holds now. `queries`: expression, heading and unit of a column; `key`: labels as columns."""
    queries = list(queries)
    panel = table.Panel().unit("none").show_header(True)
    names = {f"Value #{letter}": heading for letter, (_, heading, _) in zip(LETTERS, queries, strict=False)}
    for letter, (expr, heading, unit) in zip(LETTERS, queries, strict=False):
        panel.with_target(
            prometheus.Dataquery().expr(expr).instant().format(PromQueryFormat.TABLE).ref_id(letter).datasource(SOURCE)
        )
        panel.override_by_name(heading, [{"id": "unit", "value": unit}])
    columns = [*key, *names]
    panel.transformations(
        [
            DataTransformerConfig(id_val="merge", options={}),
            DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": columns}}),
            DataTransformerConfig(
                id_val="organize",
                options={"renameByName": names, "indexByName": {name: n for n, name in enumerate(columns)}},
            ),
        ]
    )
    return panel.title(title).description(about).datasource(SOURCE).span(span).height(8)


def _legend() -> common.VizLegendOptions:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    return legend.show_legend(True).calcs([])


def _thresholds(steps: Sequence[tuple[float | None, str]]) -> dashboard.ThresholdsConfig:
    return (
        dashboard.ThresholdsConfig()
        .mode(ThresholdsMode.ABSOLUTE)
        .steps([Threshold(value=v, color=c) for v, c in steps])
    )


def _mapping(meaning: dict[int, tuple[str, str]]) -> ValueMap:
    return ValueMap(
        options={
            str(value): ValueMappingResult(text=word, color=colour, index=value)
            for value, (word, colour) in meaning.items()
        }
    )


def _filled(panel: Panel, title: str, about: str, queries: Iterable[Query], span: int, height: int) -> Panel:
    for letter, query in zip(LETTERS, queries, strict=False):
        target = prometheus.Dataquery().expr(query.expr).range().ref_id(letter).datasource(SOURCE)
        panel.with_target(target.legend_format(query.legend or "__auto"))
    if not isinstance(panel, heatmap.Panel | statetimeline.Panel | stat.Panel):
        panel.color_scheme(dashboard.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
    return panel.title(title).description(about).datasource(SOURCE).span(span).height(height)
