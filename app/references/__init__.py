"""Pages of `docs/` that are made from the code; `python -m app.references` writes all of them."""
