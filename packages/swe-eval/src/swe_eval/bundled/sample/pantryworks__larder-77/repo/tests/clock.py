class Clock:
    """A timer that stands still until it is told to move."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def forward(self, seconds):
        self.now += seconds
