"""Settings of `swe-exec-pool`."""

from pathlib import Path

from pydantic import SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from swe_exec_server.common.settings import CommaList, ToolSettings, setting
from swe_exec_server.settings import LOOPBACK


class PoolSettings(ToolSettings):
    """Serve several exec servers as one: allocations go to the node with the most room."""

    model_config = SettingsConfigDict(env_prefix="SWE_EXEC_POOL_")

    exec_server_urls: CommaList = setting(env=("SWE_EXEC_SERVER_URLS",))
    """The nodes, http://host:port, separated by commas."""
    host: str = setting("127.0.0.1", env=("SWE_ENV_SERVER_BIND_HOST",))
    """Address to listen on; beyond loopback a token is needed."""
    port: int = setting(18090, env=("SWE_ENV_SERVER_PORT",), ge=0, le=65535)
    """TCP port; 0 takes a free one and prints it."""
    max_containers_per_node: int | None = setting(None, env=("SWE_MAX_CONTAINERS_PER_NODE",), ge=1)
    """Use at most so many containers of each node [default: what the node allows]."""
    token: SecretStr | None = setting(None, env=("SWE_EXEC_TOKEN",))
    """Bearer token of the cluster: demanded of clients and shown to nodes."""
    token_file: Path | None = None
    """File that holds the token."""
    threads: int = setting(256, ge=16)
    """Requests at the same time; waiting allocations and forwarded commands hold one each."""

    @field_validator("exec_server_urls")
    @classmethod
    def _urls(cls, urls: list[str]) -> list[str]:
        if not urls:
            raise ValueError("name at least one exec server, http://host:port")
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"{url!r} is no address; give it as http://host:port")
        urls = [url.rstrip("/") for url in urls]
        if len({url.split("://", 1)[1] for url in urls}) < len(urls):
            raise ValueError("an exec server stands twice")
        return urls

    @model_validator(mode="after")
    def _token_beyond_loopback(self) -> "PoolSettings":
        if self.host not in LOOPBACK and self.token is None and self.token_file is None:
            raise ValueError(
                f"--host {self.host} is reachable from other machines: set SWE_EXEC_TOKEN or --token-file FILE"
            )
        return self
