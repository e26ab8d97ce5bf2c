"""Places in a nested dict, as text: "db.host"."""

SEPARATOR = "."


def join(keys):
    """The text of a sequence of keys."""
    return SEPARATOR.join(keys)


def split(path):
    """The keys of a path."""
    return path.split(SEPARATOR)


def descend(root, keys):
    """The dict that holds the last of `keys`. Raises KeyError or TypeError where there is none."""
    node = root
    for key in keys[:-1]:
        node = node[key]
        if not isinstance(node, dict):
            raise TypeError("%s is no dict" % key)
    return node


def contains(outer, inner):
    """Whether the place `inner` is `outer` or lies in it."""
    return inner == outer or inner.startswith(outer + SEPARATOR)
