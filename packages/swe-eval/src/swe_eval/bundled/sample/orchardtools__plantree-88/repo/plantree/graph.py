"""Packages and what they need."""

from .errors import MissingError
from .requirement import Requirement
from .version import Version


class Graph:
    def __init__(self):
        self._requirements = {}
        self._versions = {}

    def add(self, name, requirements=(), version="0"):
        """Add a package, or replace it."""
        self._requirements[name] = [Requirement(text) for text in requirements]
        self._versions[name] = Version(version)

    def __contains__(self, name):
        return name in self._versions

    def __len__(self):
        return len(self._versions)

    def names(self):
        return sorted(self._versions)

    def version(self, name):
        return self._versions[name]

    def needs(self, name):
        """The names that a package needs, in the order listed. Raises MissingError."""
        result = []
        for requirement in self._requirements[name]:
            if requirement.name not in self._versions:
                raise MissingError(requirement, name, "no such package")
            version = self._versions[requirement.name]
            if not requirement.fits(version):
                raise MissingError(requirement, name, "only version %s is there" % version)
            result.append(requirement.name)
        return result
