"""Grafana's dashboards, from one description.

python deploy/grafana/make.py            writes dashboards/*.json
python deploy/grafana/make.py --check    fails when they are not what would be written
"""

import json
import sys
from pathlib import Path
from typing import Any

from boards import BOARDS, Board, Panel, Row

_FOLDER = Path(__file__).parent / "dashboards"
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_COLUMNS = 24
# Rows of Grafana's grid.
_HEIGHTS = {"stat": 4, "timeseries": 8, "table": 8, "bargauge": 8, "state-timeline": 8}


def written() -> dict[Path, str]:
    """What each file holds."""
    return {
        _FOLDER / f"{board.name}.json": json.dumps(_board(board), indent=1, ensure_ascii=False)
        + "\n"
        for board in BOARDS
    }


def _board(board: Board) -> dict[str, Any]:
    return {
        "uid": f"foreword-{board.name}",
        "title": f"Foreword: {board.title}",
        "description": board.about,
        "tags": ["foreword"],
        "schemaVersion": 41,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [
            {"type": "dashboards", "tags": ["foreword"], "title": "Foreword", "asDropdown": False,
             "includeVars": True, "keepTime": True}
        ],
        "templating": {"list": [_source(), *map(_filter, board.filters)]},
        "panels": _panels(board),
    }  # fmt: skip


def _source() -> dict[str, Any]:
    return {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _filter(name: str) -> dict[str, Any]:
    metric = "foreword_replica_state" if name == "replica" else "foreword_requests_total"
    query = f"label_values({metric}, {name})"
    return {
        "name": name,
        "type": "query",
        "label": name,
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panels(board: Board) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    x = y = height = 0
    for item in board.items:
        if isinstance(item, Row):
            y, x, height = y + height, 0, 0
            place = {"x": 0, "y": y, "w": _COLUMNS, "h": 1}
            row = {"type": "row", "title": item.title, "collapsed": False, "panels": []}
            made.append({"id": len(made) + 1, "gridPos": place, **row})
            y += 1
            continue
        if x + item.width > _COLUMNS:
            y, x, height = y + height, 0, 0
        place = {"x": x, "y": y, "w": item.width, "h": _HEIGHTS[item.kind]}
        made.append({"id": len(made) + 1, "gridPos": place, **_panel(item)})
        x, height = x + item.width, max(height, _HEIGHTS[item.kind])
    return made


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        fill = 30 if panel.stacked else 0
        defaults["custom"] = {"fillOpacity": fill, "showPoints": "auto", "stacking": stacking}
        defaults["min"] = 0
    if panel.unit == "percentunit":
        defaults |= {"min": 0, "max": 1}
    if panel.bad_above is not None:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.bad_above}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(panel),
        "targets": [_target(panel, number) for number in range(len(panel.queries))],
        **_transformations(panel),
    }


def _options(panel: Panel) -> dict[str, Any]:
    last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    match panel.kind:
        case "timeseries":
            return {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        case "stat":
            return {"reduceOptions": last, "graphMode": "area", "textMode": "auto"}
        case "bargauge":
            return {"reduceOptions": last, "orientation": "horizontal", "displayMode": "basic"}
        case _:
            return {}


def _target(panel: Panel, number: int) -> dict[str, Any]:
    query, legend = panel.queries[number]
    target: dict[str, Any] = {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": query}
    target |= {"legendFormat": legend, "range": panel.kind != "table"}
    if panel.kind == "table":
        target |= {"instant": True, "format": "table"}
    return target


def _transformations(panel: Panel) -> dict[str, Any]:
    """A table's queries become its columns, by the label they share."""
    if panel.kind != "table":
        return {}
    names = {f"Value #{chr(ord('A') + n)}": legend for n, (_, legend) in enumerate(panel.queries)}
    return {
        "transformations": [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": names}},
        ]
    }


def main(arguments: list[str]) -> int:
    """Write the files, or say which are not as they would be written."""
    wrong = []
    for path, text in written().items():
        if arguments != ["--check"]:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            wrong.append(path.name)
    if wrong:
        sys.stderr.write(
            f"run `python deploy/grafana/make.py`: {', '.join(wrong)} are not current\n"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
