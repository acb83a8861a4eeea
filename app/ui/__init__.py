"""The browser's pages: static files that talk to the gateway's own routes, and to nothing else."""

from app.ui.static_files import PageFile, read_page_file

__all__ = ["PageFile", "read_page_file"]
