"""The document of a matrix of races."""

from __future__ import annotations

from esbench.comparison.matrix import Matrix
from esbench.report.table_model import Column, ReportDocument, Table, figure_cell


def matrix_document(found: Matrix) -> ReportDocument:
    """Return the matrix as a table: a column for each part of a row's label, and one for each of the matrix."""
    keys = [Column(key.partition(":")[2] or key.capitalize(), key) for key in found.row_keys]
    columns = [Column(str(label), str(label), numeric=True) for label in found.columns]
    units = [Column("Unit", "unit")] if len(found.units) > 1 else []
    rows = []
    for row in found.rows:
        cells = [found.cells.get((row, label)) for label in found.columns]
        unit = [next((cell[0].unit for cell in cells if cell), None)] if units else []
        rows.append((*row, *(figure_cell(cell[0] if cell else None) for cell in cells), *unit))
    races = {cell[1] for cell in found.cells.values() if cell}
    several = f", means of {'up to ' if len(races) > 1 else ''}{max(races)} races" if races - {1} else ""
    unit_of_all = f", {found.units[0]}" if not units and found.units[0] else ""
    line = f"{found.value}{unit_of_all}{several}"
    return ReportDocument(Table((*keys, *columns, *units), tuple(rows)), notices=found.notices, line=line)
