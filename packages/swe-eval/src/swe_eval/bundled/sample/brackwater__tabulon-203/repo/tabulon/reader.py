"""CSV text -> header and rows."""

import csv
import io


def read_table(text, delimiter=","):
    """(header, rows) of a CSV text; short rows are filled up with empty cells, blank lines left out.

    Raises ValueError for a row that is longer than the header, or for a text without a header.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    lines = [row for row in reader if row]
    if not lines:
        raise ValueError("no header: the text is empty")
    header, rows = lines[0], lines[1:]
    filled = []
    for number, row in enumerate(rows, 2):
        if len(row) > len(header):
            raise ValueError("row %d has %d cells, the header has %d" % (number, len(row), len(header)))
        filled.append(row + [""] * (len(header) - len(row)))
    return header, filled
