"""Distributed GRPO training of coding agents: Ray, vLLM rollouts, torch FSDP2."""

__version__ = "0.1.0"
