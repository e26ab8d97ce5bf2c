"""Columns -> text."""

from .columns import RIGHT, columns_of


def _plain(columns, count):
    lines = ["  ".join(column.pad(column.title) for column in columns)]
    lines.append("  ".join("-" * column.width for column in columns))
    for i in range(count):
        lines.append("  ".join(column.pad(column.cells[i]) for column in columns))
    return [line.rstrip() for line in lines]


def _markdown(columns, count):
    def row(cells):
        return "| " + " | ".join(cells) + " |"

    lines = [row(column.pad(column.title) for column in columns)]
    lines.append(row("-" * (column.width - 1) + (":" if column.align == RIGHT else "-") for column in columns))
    for i in range(count):
        lines.append(row(column.pad(column.cells[i]).replace("|", "\\|") for column in columns))
    return lines


FORMATS = {"plain": _plain, "markdown": _markdown}


def render(header, rows, format="plain"):
    """The table as text, without a newline at the end. Raises ValueError for an unknown format."""
    if format not in FORMATS:
        raise ValueError("unknown format %r; there are %s" % (format, ", ".join(sorted(FORMATS))))
    return "\n".join(FORMATS[format](columns_of(header, rows), len(rows)))
