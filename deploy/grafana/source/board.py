"""The dashboard around the panels: choices, links to the others, marks on the graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableRefresh,
    VariableSort,
)

from deploy.grafana.source.queries import SOURCE


def board(uid: str, title: str, about: str, *variables: dashboard.QueryVariable) -> dashboard.Dashboard:
    """A dashboard with the choice of data source and jobs, links to the others, and `variables` of its own."""
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(about)
        .tags(["runwatch", "gpu"])
        .readonly()
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("runwatch")
            .type(DashboardLinkType.DASHBOARDS)
            .tags(["runwatch"])
            .as_dropdown(False)
            .include_vars(True)
            .keep_time(True)
            .icon("external link")
            .tooltip("The other dashboards of runwatch")
            .url("")
            .target_blank(False)
        )
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(
            choice("job", "Jobs", 'label_values({__name__=~"runwatch_build_info|runwatch_agent_info"}, job)', many=True)
        )
    )
    for variable in variables:
        made.with_variable(variable)
    return made


def choice(name: str, label: str, query: str, *, many: bool = False) -> dashboard.QueryVariable:
    variable = (
        dashboard.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return variable.multi(True).include_all(True).all_value(".+") if many else variable.multi(False).include_all(False)


@dataclass(frozen=True)
class Marks:
    """Marks on all graphs of a dashboard while `expr` has a value. `says`: with {{label}}, as a legend.

    The SDK writes the form of Grafana 8; this one holds the query as its data source does since.
    """

    name: str
    expr: str
    says: str
    colour: str

    def build(self) -> Marks:
        return self

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "datasource": SOURCE,
            "enable": True,
            "hide": False,
            "iconColor": self.colour,
            "target": {"refId": "Anno", "expr": self.expr, "interval": "30s"},
            "titleFormat": self.says,
        }
