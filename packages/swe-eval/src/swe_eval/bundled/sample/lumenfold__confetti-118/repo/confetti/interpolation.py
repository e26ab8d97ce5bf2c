"""Resolving ${key} and ${section:key}."""

import re

from .errors import InterpolationError

REFERENCE = re.compile(r"\$(?:\$|\{([^}]*)\})")
MAX_DEPTH = 20


def resolve(config, section, key):
    """The value of `key` in `section` with all references replaced.

    Raises InterpolationError for references that do not exist or that form a circle.
    """
    return _expand(config, config.raw(section, key), section, depth=0, origin="%s:%s" % (section, key))


def _expand(config, text, section, depth, origin):
    if depth > MAX_DEPTH:
        raise InterpolationError("%s: references are nested too deeply or form a circle" % origin)

    def replace(match):
        if match.group(0) == "$$":
            return "$"
        target, key = _split(match.group(1), section)
        try:
            value = config.raw(target, key)
        except KeyError:
            raise InterpolationError("%s: ${%s} does not exist" % (origin, match.group(1)))
        return _expand(config, value, section, depth + 1, origin)

    return REFERENCE.sub(replace, text)


def _split(reference, section):
    """(section, key) that a reference written in `section` points to."""
    name, colon, key = reference.partition(":")
    if colon:
        return name.strip(), key.strip()
    return section, reference.strip()
