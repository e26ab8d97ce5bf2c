"""One run of mini-swe-agent over the commands, in an environment that has it; prints milliseconds a step.

python _agent_peer.py IMAGE ROUNDS DIRECTORY
"""
# mypy: ignore-errors

import logging
import subprocess
import sys
import time
from pathlib import Path

from _agent_steps import CWD, SETUP, steps
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.docker import DockerEnvironment
from minisweagent.models.test_models import DeterministicModel, make_output


def main():
    image, rounds, directory = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    logging.disable(logging.CRITICAL)
    commands = steps(rounds)
    outputs = [make_output(f"Next.\n\n```bash\n{text}\n```", [{"command": text}], cost=0.0) for text in commands]
    environment = DockerEnvironment(image=image, cwd=CWD)
    try:
        environment.execute({"command": SETUP})
        agent = DefaultAgent(
            DeterministicModel(outputs=outputs, cost_per_call=0.0),
            environment,
            system_template="You repair repositories.",
            instance_template="{{ task }}",
            output_path=directory / "run.traj.json",
        )
        begun = time.perf_counter()
        result = agent.run("The greeting must be hi.")
        elapsed = time.perf_counter() - begun
    finally:
        subprocess.run(["docker", "rm", "-f", environment.container_id], capture_output=True, check=True)
        environment.container_id = None
    if result["exit_status"] != "Submitted" or '+    return "hi " + name' not in result["submission"]:
        raise RuntimeError(f"mini-swe-agent ended with {result}")
    print(elapsed / len(commands) * 1e3)


main()
