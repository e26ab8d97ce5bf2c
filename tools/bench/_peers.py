"""Measures swe-rex and mini-swe-agent, in an environment that has them; prints one JSON object per peer and round.

    python _peers.py swe-rex|mini-swe-agent IMAGE SECONDS CYCLES CONCURRENCY... [-- SITE]

SITE is a directory of swe-rex's packages for the container's own Python, mounted into the container: then the server
inside it is there at once, as in an image that was prepared for it.
"""
# mypy: ignore-errors

import asyncio
import json
import logging
import statistics
import subprocess
import sys
import time

import _measure


def mini_swe_agent(image, seconds, cycles, levels):
    from minisweagent.environments.docker import DockerEnvironment

    def call(environment):
        answer = environment.execute({"command": _measure.COMMAND})
        if answer["output"] != _measure.EXPECTED:
            raise RuntimeError(f"mini-swe-agent answered {answer}")

    def cycle():
        environment = DockerEnvironment(image=image)
        call(environment)
        remove(environment.container_id)

    environment = DockerEnvironment(image=image)
    try:
        latencies = [_measure.load(lambda: lambda: call(environment), level, seconds) for level in levels]
    finally:
        remove(environment.container_id)
    return {
        "exec": _measure.rows(latencies),
        "cycle_ms": statistics.median(_measure.seconds_of(cycle) for _ in range(cycles)) * 1e3,
    }


def remove(container):
    # Its own clean-up runs `docker stop` in the background; removed here at once, which is quicker.
    subprocess.run(["docker", "rm", "-f", container], capture_output=True, check=True)


def swe_rex(image, seconds, cycles, levels, site):
    from swerex.deployment.docker import DockerDeployment
    from swerex.runtime.abstract import Command

    class Mounted(DockerDeployment):
        def _get_swerex_start_cmd(self, token):
            return ["python3", "-m", "swerex.server", "--auth-token", token]

    def deployment():
        arguments = ["-v", f"{site}:{site}:ro", "-e", f"PYTHONPATH={site}"]
        made = Mounted(image=image, docker_args=arguments, pull="never")
        made.logger.setLevel(logging.ERROR)
        return made

    async def call(running):
        answer = await running.runtime.execute(Command(command=_measure.COMMAND, shell=True))
        if answer.stdout != _measure.EXPECTED:
            raise RuntimeError(f"swe-rex answered {answer}")

    async def load(running, level):
        await call(running)
        times = []
        begun = time.perf_counter()

        async def work():
            while (now := time.perf_counter()) < begun + seconds:
                await call(running)
                times.append(time.perf_counter() - now)

        await asyncio.gather(*(work() for _ in range(level)))
        return _measure.summarise(times, level, time.perf_counter() - begun)

    async def cycle():
        running = deployment()
        await running.start()
        try:
            await call(running)
        finally:
            await running.stop()

    async def everything():
        running = deployment()
        await running.start()
        try:
            latencies = [await load(running, level) for level in levels]
        finally:
            await running.stop()
        taken = []
        for _ in range(cycles):
            begun = time.perf_counter()
            await cycle()
            taken.append(time.perf_counter() - begun)
        return {"exec": _measure.rows(latencies), "cycle_ms": statistics.median(taken) * 1e3}

    return asyncio.run(everything())


def main():
    arguments, _, site = " ".join(sys.argv[1:]).partition(" -- ")
    peer, image, seconds, cycles, *levels = arguments.split()
    measured = (image, float(seconds), int(cycles), [int(level) for level in levels])
    logging.disable(logging.INFO)
    print(json.dumps(mini_swe_agent(*measured) if peer == "mini-swe-agent" else swe_rex(*measured, site)))


if __name__ == "__main__":
    main()
