"""Execute the notebooks, and keep their outputs: ``python docs/make/notebooks.py [NAME]…``.

Those of "Getting started" are written by hand, those of the phenomena by ``lessons``.
"""

import sys
import tempfile
from pathlib import Path

import lessons
import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).parents[1]
FOLDER = DOCS / "getting-started"
PHENOMENA = DOCS / "phenomena"


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of its cells, run in an otherwise empty folder.

    Raises:
        CellExecutionError: a cell fails.
    """
    return run(nbformat.read(path, 4), folder)  # type: ignore[no-untyped-call]


def run(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of its cells, run in a folder."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _passing(output)]
    return notebook


def _passing(output: nbformat.NotebookNode) -> bool:
    """Return whether an output is of the moment: a message on standard error, or the last state of a progress bar."""
    return output.get("name") == "stderr" or (
        output.output_type == "display_data" and set(output.data) == {"text/plain"}
    )


def main(names: list[str]) -> None:
    """Execute the notebooks of some names, or all."""
    written = {path: nbformat.read(path, 4) for path in sorted(FOLDER.glob("*.ipynb"))}  # type: ignore[no-untyped-call]
    written |= {PHENOMENA / f"{name}.ipynb": lessons.notebook(name) for name in lessons.LESSONS}
    for path, notebook in written.items():
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(run(notebook, Path(folder)), path)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(sys.argv[1:])
