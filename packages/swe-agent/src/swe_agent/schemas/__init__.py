"""The JSON Schema of traj.json, made from the types that write it.

The package holds it as `traj.schema.json`; `python -m swe_agent.schemas` prints it anew after a change of the types.
"""

import inspect
import json
import re
from importlib.resources import files
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from swe_agent.models import Message
from swe_agent.trajectory import SCHEMA, AgentStatus, PatchSource, Step, Trajectory

SCHEMA_FILE = "traj.schema.json"


class PatchRecord(TypedDict):
    """What patch.diff beside it holds."""

    source: PatchSource
    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class TrajectoryRecord(TypedDict):
    """The content of traj.json, as `Trajectory.to_json` writes it."""

    schema: Annotated[int, Field(json_schema_extra={"const": SCHEMA})]
    instance_id: str
    status: AgentStatus
    error: str
    started_at: str
    elapsed: float
    prompt_tokens: int
    completion_tokens: int
    base_commit: str
    patch: PatchRecord
    steps: list[Step]
    messages: list[Message]


def trajectory_schema() -> dict[str, Any]:
    """The schema, made now. Descriptions are those of the types' docstrings."""
    schema = TypeAdapter(TrajectoryRecord).json_schema(mode="serialization")
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    schema["title"], schema["description"] = "traj.json", f"One run of swe-agent, schema {SCHEMA}."
    _describe(schema, Trajectory)
    _describe(schema["$defs"]["Step"], Step)
    return schema


def published_schema() -> str:
    """The text of the packaged file."""
    return files(__name__).joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


def render(schema: dict[str, Any]) -> str:
    """The text that the packaged file must have."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _describe(schema: dict[str, Any], cls: type) -> None:
    """Give properties the words of the class's `Attributes` section."""
    documentation = inspect.getdoc(cls) or ""
    _, _, section = documentation.partition("Attributes:\n")
    for match in re.finditer(r"^    ([\w, ]+): (.+(?:\n {8}.+)*)", section, re.MULTILINE):
        for name in match[1].split(", "):
            if name in schema["properties"]:
                schema["properties"][name]["description"] = " ".join(match[2].split())
