"""A bundled task's "image" for the embedded backend: a directory with its git repository, made once and reused.

A directory under its final name is complete: it is made under another name and renamed, so a kill or a concurrent
caller never shows half a tree.
"""

import shutil
import tempfile
from pathlib import Path

from swe_eval.bundled.identity import content_hash
from swe_eval.bundled.repository import materialise


def ensure_local_image(instance_id: str, root: Path) -> Path:
    """`root/<instance_id>-<hash>`, a clean checkout of the task's repository; made on first use.

    Callers must copy it and leave it as it is. Raises as `materialise` does.
    """
    target = root / f"{instance_id}-{content_hash(instance_id)[:12]}"
    if target.is_dir():
        return target
    root.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=root, prefix=f".{instance_id}-"))
    try:
        materialise(instance_id, draft)
        draft.chmod(0o755)
        try:
            draft.rename(target)
        except OSError:
            # Another caller was first: a non-empty directory is never replaced by a rename.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target
