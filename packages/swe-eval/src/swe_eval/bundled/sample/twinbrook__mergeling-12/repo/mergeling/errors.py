"""What can go wrong."""


class PatchError(ValueError):
    """A change that does not fit the dict it is applied to."""


class MergeConflict(ValueError):
    """Both sides changed the same thing in different ways. `paths` are the places, as text."""

    def __init__(self, paths):
        super().__init__("both sides changed " + ", ".join(paths))
        self.paths = paths
