"""One panel, in Grafana's classic JSON model."""

from dataclasses import dataclass

SOURCE = {"type": "prometheus", "uid": "${source}"}
SELECTOR = 'instance=~"$instance"'
TOPIC = ', topic=~"$topic"'
GROUP = ', group=~"$group"'
WIDTH, HEIGHT = 8, 8
COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Panel:
    """title and text: for people; text explains the panel. lines: expression and legend of each
    line.

    In an expression @ stands for the selected instance, ~ and % after it for topic and group, # for
    Grafana's window of rates. unit: Grafana's name. kind: timeseries, stat or heatmap, whose lines
    are the buckets of a histogram. bad: value from which on it is drawn red, None for none.
    stacked: one on another.
    """

    title: str
    text: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    bad: float | None = None
    stacked: bool = False

    def as_json(self, number: int, column: int, y: int) -> dict[str, object]:
        """number: unique in the dashboard."""
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.text,
            "datasource": SOURCE,
            "gridPos": {"x": column, "y": y, "w": WIDTH, "h": HEIGHT},
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": self._options(),
            "targets": [self._target(at, *line) for at, line in enumerate(self.lines)],
        }

    def _target(self, at: int, expression: str, legend: str) -> dict[str, object]:
        target: dict[str, object] = {
            "refId": chr(65 + at),
            "datasource": SOURCE,
            "expr": whole(expression),
            "legendFormat": legend,
        }
        return target | {"format": "heatmap"} if self.kind == "heatmap" else target

    def _defaults(self) -> dict[str, object]:
        if self.kind == "heatmap":
            return {"unit": self.unit, "custom": {"scaleDistribution": {"type": "linear"}}}
        steps: list[dict[str, object]] = [{"color": "green", "value": None}]
        if self.bad is not None:
            steps.append({"color": "red", "value": self.bad})
        defaults: dict[str, object] = {
            "unit": self.unit,
            "min": 0,
            "thresholds": {"mode": "absolute", "steps": steps},
        }
        if self.kind == "timeseries":
            stacking = {"mode": "normal" if self.stacked else "none", "group": "A"}
            defaults["custom"] = {
                "fillOpacity": 30 if self.stacked else 8,
                "lineWidth": 1,
                "showPoints": "never",
                "stacking": stacking,
                "thresholdsStyle": {"mode": "off" if self.bad is None else "line"},
            }
        return defaults

    def _options(self) -> dict[str, object]:
        if self.kind == "stat":
            return {
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "colorMode": "value",
            }
        if self.kind == "heatmap":
            return {
                "calculate": False,
                "yAxis": {"unit": self.unit},
                "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
                "filterValues": {"le": 1e-9},
                "legend": {"show": False},
                "tooltip": {"mode": "single", "show": True, "yHistogram": False},
            }
        return {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }


def whole(expression: str) -> str:
    """The expression as Grafana gets it."""
    chosen = expression.replace("@", SELECTOR).replace("{" + SELECTOR + "~", "{" + SELECTOR + TOPIC)
    chosen = chosen.replace("{" + SELECTOR + "%", "{" + SELECTOR + GROUP)
    return chosen.replace("#", "$__rate_interval")


def row(title: str, number: int, y: int) -> dict[str, object]:
    """The headline above a group of panels."""
    place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
