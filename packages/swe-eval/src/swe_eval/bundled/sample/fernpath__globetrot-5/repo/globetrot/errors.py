class PatternError(ValueError):
    """A pattern that can not be read. `position` counts from 0."""

    def __init__(self, message, pattern, position):
        super().__init__("%s at %d in %r" % (message, position, pattern))
        self.pattern = pattern
        self.position = position
