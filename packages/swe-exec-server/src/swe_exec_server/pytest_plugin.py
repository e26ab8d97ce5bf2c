"""A pytest plugin for tests that need a Docker engine: they run for real, and where they cannot they say why.

Load it with `-p swe_exec_server.pytest_plugin` (in `addopts`, so that a package tested alone has it too). It gives

- the mark `docker` a meaning: without an answering engine or without the base image such a test is skipped with the
  reason; with `CI` set in the environment it fails instead, so a green CI has run them;
- `docker_base_image`: the name of that image (`SWE_TEST_BASE_IMAGE`, else `swe-base:bookworm`);
- `swe_test_data`: the directory of real benchmark rows named by `SWE_TEST_DATA`; tests that ask for it are skipped
  where it is unset.
"""

import functools
import os
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException, ImageNotFound

DEFAULT_BASE_IMAGE = "swe-base:bookworm"
ENGINE_TIMEOUT = 10  # seconds for an engine to answer


def base_image_name() -> str:
    """The image that Docker tests start from; an empty variable counts as unset."""
    return os.environ.get("SWE_TEST_BASE_IMAGE") or DEFAULT_BASE_IMAGE


def in_ci() -> bool:
    """Whether `CI` is set to anything that does not mean no."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")


@functools.cache
def docker_fault(image: str) -> str | None:
    """Why Docker tests cannot run here, in one line, or None; asked of the engine once per process."""
    try:
        client = docker.from_env(timeout=ENGINE_TIMEOUT)
    except DockerException:
        return "no Docker engine answers; start dockerd, or set DOCKER_HOST to a running engine"
    try:
        client.images.get(image)
    except ImageNotFound:
        return f"the image {image} is missing; make it with tools/base_image, or set SWE_TEST_BASE_IMAGE"
    except (DockerException, OSError) as error:
        return f"the Docker engine does not answer properly: {error}"
    finally:
        client.close()
    return None


def _require_docker() -> None:
    """Return if Docker tests can run; else end the test as skipped, in CI as failed."""
    fault = docker_fault(base_image_name())
    if fault is None:
        return
    if in_ci():
        pytest.fail(f"Docker tests must run in CI, but {fault}", pytrace=False)
    pytest.skip(fault)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture of a `docker` test: can it run?"""
    if item.get_closest_marker("docker") is not None:
        _require_docker()


@pytest.fixture(scope="session")
def docker_base_image() -> str:
    """Name of an image that is there, with Python 3, git, procps, patch and bash."""
    _require_docker()
    return base_image_name()


@pytest.fixture(scope="session")
def swe_test_data() -> Path:
    """The directory of real rows and logs."""
    value = os.environ.get("SWE_TEST_DATA")
    if not value:
        pytest.skip("SWE_TEST_DATA is unset; set it to a directory of benchmark rows")
    directory = Path(value)
    if not directory.is_dir():
        pytest.fail(f"SWE_TEST_DATA={value} is no directory", pytrace=False)
    return directory
