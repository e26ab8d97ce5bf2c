"""Config -> text."""

from .config import DEFAULTS


def _quote(value):
    if value != value.strip() or (value.startswith('"') and value.endswith('"')):
        return '"%s"' % value
    return value


def dumps(config):
    """The raw values as text that `loads` reads back unchanged; [defaults] comes first."""
    blocks = []
    names = ([DEFAULTS] if DEFAULTS in config else []) + config.sections()
    for name in names:
        lines = ["[%s]" % name]
        for key, value in config._sections[name].items():
            lines.append("%s = %s" % (key, _quote(value)))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
