"""Settings of `swe-exec-server`."""

from pathlib import Path
from typing import Literal

from pydantic import SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from swe_exec_server.common.settings import ToolSettings, setting

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class NodeSettings(ToolSettings):
    """Serve this machine's Docker containers over HTTP."""

    model_config = SettingsConfigDict(env_prefix="SWE_EXEC_SERVER_")

    host: str = "127.0.0.1"
    """Address to listen on; beyond loopback a token is needed."""
    port: int = setting(5000, ge=0, le=65535)
    """TCP port; 0 takes a free one and prints it."""
    max_containers: int = setting(15, env=("SWE_MAX_CONTAINERS_PER_NODE",), ge=1, le=10_000)
    """Containers at any one time; creates beyond it queue."""
    token: SecretStr | None = setting(None, env=("SWE_EXEC_TOKEN",))
    """Bearer token that requests must carry."""
    token_file: Path | None = None
    """File that holds the token."""
    namespace: str = setting("", pattern=r"^[A-Za-z0-9._-]*$")
    """Only containers of this namespace are this server's: one each for servers on one engine [default: port-PORT]."""
    memory: str = setting("8g", pattern=r"^[0-9]+[kmgKMG]?$")
    """Memory of a container, and the most that a request may ask for."""
    pids: int = setting(1024, ge=8)
    """Processes of a container, likewise."""
    cpus: float = setting(2.0, gt=0)
    """CPU cores of a container, likewise."""
    ttl: float = setting(600.0, ge=1)
    """Seconds that a lease outlives its last use, where create names none."""
    shell: Literal["login", "plain"] = "login"
    """Whether commands see what a login shell sets up (conda activation and the like)."""
    allow_network: bool = False
    """Let creates ask for a network."""
    max_body: str = setting("256m", pattern=r"^[0-9]+[kmgKMG]?$")
    """Largest request body."""
    drain_timeout: float = setting(30.0, ge=0)
    """Seconds that running commands get when the server is told to stop."""

    @model_validator(mode="after")
    def _token_beyond_loopback(self) -> "NodeSettings":
        if self.host not in LOOPBACK and self.token is None and self.token_file is None:
            raise ValueError(
                f"--host {self.host} is reachable from other machines: set SWE_EXEC_TOKEN or --token-file FILE"
            )
        return self


def parse_size(text: str) -> int:
    """`8g` -> bytes."""
    factor = {"k": 1024, "m": 1024**2, "g": 1024**3}.get(text[-1].lower(), 1)
    return int(text.rstrip("kmgKMG")) * factor
