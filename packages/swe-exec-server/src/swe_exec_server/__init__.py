"""Docker containers behind HTTP for coding agents: create, exec, diff, evaluate.

The names most callers need:

* [`AsyncExecClient`][swe_exec_server.client.AsyncExecClient] and its sync face `ExecClient`: lease sandboxes;
* [`Sandbox`][swe_exec_server.sandbox.Sandbox]: what a lease can do;
* [`SandboxError`][swe_exec_server.wire.SandboxError]: the one error type of all of them.
"""

__version__ = "0.1.0"
