"""The plugin's sources, as if they were installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "deploy" / "pytest-plugin" / "src"))
