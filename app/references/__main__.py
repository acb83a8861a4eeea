"""Write every page that is made from the code (`python -m app.references`)."""

from pathlib import Path

from app.references.pages import PAGES

ROOT = Path(__file__).parent.parent.parent

for name, made in PAGES.items():
    path = ROOT / name
    path.write_text(made(path.read_text("utf-8") if path.exists() else ""), "utf-8")
