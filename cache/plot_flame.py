"""The prefix flame as a plot: an icicle of the prefix index. Pure."""

from typing import Any

from cache.flame import FlameNode
from cache.plot_layout import Figure, figure, safe
from cache.report_flame import FlamePiece, pieces
from cache.report_numbers import count
from cache.report_parts import Label

LEVELS = 6


def flame_figure(root: FlameNode) -> Figure:
    """Width is tokens served, colour how much of them was re-used; ◆ marks where prompts part."""
    found = pieces(root)
    icicle = {
        "type": "icicle",
        "ids": [piece.place for piece in found],
        "parents": [piece.place.rpartition(".")[0] for piece in found],
        "labels": [safe(Label(piece.name), 60) for piece in found],
        "values": [piece.width_tokens for piece in found],
        "branchvalues": "total",
        "text": [_text(piece) for piece in found],
        "texttemplate": "<b>%{label}</b><br>%{text}",
        "hovertemplate": "<b>%{label}</b><br>%{customdata}<extra></extra>",
        "customdata": [_hover(piece) for piece in found],
        "tiling": {"orientation": "v", "pad": 1},
        "pathbar": {"visible": False},
        "textfont": {"size": 12, "color": [f"--on-{_level(piece)}" for piece in found]},
        "marker": {
            "colors": [f"--{_level(piece)}" for piece in found],
            "line": {
                "color": ["--ink" if piece.parts else "--card" for piece in found],
                "width": [1.5 if piece.parts else 0.5 for piece in found],
            },
        },
    }
    depth = max(piece.depth for piece in found)
    return figure(
        [icicle],
        height=min(120 + 56 * depth, 620),
        showlegend=False,
        uniformtext={"minsize": 11, "mode": "hide"},
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        meta={"narrow": _narrow(found)},
    )


def _narrow(found: list[FlamePiece]) -> dict[str, Any]:
    """On a phone the tree grows to the right, and pieces have room for their names only."""
    names = [safe(Label(piece.name)).replace(" ", "<br>") for piece in found]
    return {
        "data.0.tiling.orientation": "h",
        "data.0.text": names,
        "data.0.texttemplate": "%{text}",
        "data.0.textfont.size": 10,
        "layout.uniformtext.minsize": 8,
        "layout.height": 560,
    }


def _text(piece: FlamePiece) -> str:
    mark = f"<br>◆ parts into {count(piece.parts)}" if piece.parts else ""
    return f"{piece.reused} re-used{mark}"


def _hover(piece: FlamePiece) -> str:
    lines = [
        f"{count(piece.node.tokens)} tokens, in {count(piece.node.requests)} requests",
        f"{count(piece.width_tokens)} tokens served in it and after it",
        f"{piece.reused} of {'its own' if piece.depth else 'them'} were re-used",
    ]
    if piece.parts:
        lines.append(f"◆ prompts part into {count(piece.parts)}")
    return "<br>".join(lines)


def _level(piece: FlamePiece) -> str:
    """The name of the colour for its re-use: one of `LEVELS` steps, or that of the unknown."""
    if piece.rate is None:
        return "unknown"
    return f"reuse-{min(int(piece.rate * LEVELS), LEVELS - 1)}"
