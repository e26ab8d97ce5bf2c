"""What a bundled task's image is made of, and the name that follows from it.

The name changes whenever the contents would, so an image that exists under its name is never stale.
"""

import hashlib
from functools import cache

from swe_eval.bundled.repository import make_repo_script
from swe_eval.bundled.tasks import repo_files

RECIPE = """\
FROM {base}
RUN command -v git >/dev/null 2>&1 || \\
    (apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*)
COPY repo /testbed
COPY make_repo.sh /tmp/make_repo.sh
WORKDIR /testbed
RUN sh /tmp/make_repo.sh && rm /tmp/make_repo.sh
"""
"""The Dockerfile of every task; `{base}` is an image with Python 3.9 or newer."""


@cache
def content_hash(instance_id: str) -> str:
    """SHA-256 (hex) over the tree, the git script and the recipe of a task."""
    digest = hashlib.sha256()
    parts = [RECIPE.encode(), make_repo_script(instance_id).encode()]
    for path, data in repo_files(instance_id).items():
        parts += [path.encode(), data]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def image_name(instance_id: str) -> str:
    """The Docker reference of a task's image: `swe-sample/<instance_id>:<first 12 digits of the hash>`."""
    return f"swe-sample/{instance_id}:{content_hash(instance_id)[:12]}".lower()
