"""What a column looks like: its width and its alignment."""

import re

NUMBER = re.compile(r"[+-]?\d+(\.\d+)?%?")

LEFT = "left"
RIGHT = "right"


class Column:
    """One column of a table.

    title -- the header cell
    cells -- the cells below it, as text
    """

    def __init__(self, title, cells):
        self.title = title
        self.cells = [cell.strip() for cell in cells]

    @property
    def width(self):
        return max(len(text) for text in [self.title] + self.cells)

    @property
    def align(self):
        """RIGHT for a column of numbers, else LEFT."""
        if self.cells and all(NUMBER.fullmatch(cell) for cell in self.cells):
            return RIGHT
        return LEFT

    def pad(self, text):
        """`text` filled up to the width of the column."""
        if self.align == RIGHT:
            return text.rjust(self.width)
        return text.ljust(self.width)


def columns_of(header, rows):
    """One Column for each cell of the header."""
    return [Column(title, [row[i] for row in rows]) for i, title in enumerate(header)]
