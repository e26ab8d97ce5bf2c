"""From settings to a place that makes sandboxes: exec servers when some are named, else a node in this process."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from swe_exec_server.client import AsyncExecClient
from swe_exec_server.common.errors import UsageError
from swe_exec_server.embedded import EmbeddedOptions, open_embedded
from swe_exec_server.wire import SandboxError


async def open_provider(urls: Sequence[str], token: str, embedded: EmbeddedOptions) -> AsyncExecClient:
    """A client whose nodes all answered, so that a dead server is named before any work. Raises `UsageError`."""
    if not urls:
        return open_embedded(embedded)
    for url in urls:
        if not _is_url(url):
            raise UsageError(f"exec server {url!r}: give it as http://host:port")
    client = AsyncExecClient.over_http(urls, token)
    try:
        for label, health in (await client.health()).items():
            if isinstance(health, SandboxError):
                raise UsageError(f"exec server {label}: {health.message}; start it or leave it out")
            if not health.ok:
                raise UsageError(f"exec server {label}: {health.message}")
        # healthz is open to all; this asks whether the token is right as well.
        await client.count_images()
    except SandboxError as error:
        await client.close()
        raise UsageError(f"exec server: {error.message}") from error
    except UsageError:
        await client.close()
        raise
    return client


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)  # its port raises for a number beyond 65535
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
