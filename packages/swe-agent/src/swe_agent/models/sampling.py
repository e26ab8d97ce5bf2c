"""How responses are drawn, as a value: sent to the server and recorded next to the result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Sampling:
    """None leaves a field to the server.

    Attributes:
        max_tokens: longest response, reasoning included.
        stop: strings that end a response.
        extra: further fields of the request body as the server names them, such as `top_k`.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The fields of a request body; what is None or empty is not sent."""
        named: dict[str, Any] = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "stop": list(self.stop) or None,
        }
        return {**self.extra, **{key: value for key, value in named.items() if value is not None}}
