"""Why there is no order."""


class PlantreeError(Exception):
    """Base class of all errors of this package."""


class MissingError(PlantreeError):
    """A requirement that no package fulfils."""

    def __init__(self, requirement, needed_by, reason):
        super().__init__("%s needs %s: %s" % (needed_by, requirement, reason))
        self.requirement = requirement
        self.needed_by = needed_by


class CycleError(PlantreeError):
    """Packages that need each other."""

    def __init__(self, cycle):
        super().__init__(" -> ".join(cycle))
        self.cycle = cycle
