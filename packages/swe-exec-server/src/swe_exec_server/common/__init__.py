"""What all four packages need: settings, errors that become one line and an exit code, files that survive a kill."""
