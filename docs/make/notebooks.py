"""Execute the notebooks of "Getting started", and keep their outputs: ``python docs/make/notebooks.py``."""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "getting-started"


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of its cells, run in an otherwise empty folder.

    Raises:
        CellExecutionError: a cell fails.
    """
    notebook: nbformat.NotebookNode = nbformat.read(path, 4)  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        cell.metadata = {}
    return notebook


def main(names: list[str]) -> None:
    """Execute the notebooks of some names, or all."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(executed(path, Path(folder)), path)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(sys.argv[1:])
