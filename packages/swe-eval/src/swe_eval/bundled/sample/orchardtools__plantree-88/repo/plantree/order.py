"""Orders in which everything comes after what it needs."""

from .errors import CycleError, MissingError


def install_order(graph, wanted=None):
    """The names of `wanted` (default: all packages) and of all they need, requirements first.

    Raises MissingError and CycleError.
    """
    order = []
    done = set()
    path = []

    def visit(name):
        if name in done:
            return
        if name in path:
            raise CycleError(path[path.index(name) :] + [name])
        path.append(name)
        for needed in graph.needs(name):
            visit(needed)
        path.pop()
        done.add(name)
        order.append(name)

    for name in graph.names() if wanted is None else wanted:
        if name not in graph:
            raise MissingError(name, "the command line", "no such package")
        visit(name)
    return order


def levels(graph):
    """Lists of packages that can be installed side by side, each after the list before."""
    depth = {}
    for name in install_order(graph):
        depth[name] = 1 + max((depth[needed] for needed in graph.needs(name)), default=-1)
    result = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for name in sorted(depth):
        result[depth[name]].append(name)
    return result
