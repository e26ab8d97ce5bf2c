"""Prints the schema of the types as they are now: `python -m swe_agent.schemas > .../schemas/traj.schema.json`."""

import sys

from swe_agent.schemas import render, trajectory_schema

sys.stdout.write(render(trajectory_schema()))
