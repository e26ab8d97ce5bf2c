"""The commands that both agents run. Standard library only: the peer's environment reads it too."""

CWD = "/testbed"
MARKER = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
SETUP = (
    "git init -q && printf '%s\\n' 'def hello(name):' '    return \"hello \" + name' > hello.py "
    "&& seq 200 > numbers.txt && git add -A "
    "&& git -c user.name=b -c user.email=b@example.invalid commit -qm start"
)
"""Before the clock starts."""
COMMANDS = [
    "ls -la",
    "cat hello.py",
    "grep -rn hello .",
    "sed -n '1,120p' numbers.txt",
    "cat numbers.txt",
    "git log --oneline",
    "sed -i 's/hello /hi /' hello.py",
    "git diff",
    "head -c 20000 /dev/zero | tr '\\0' x",
    "cat > check.sh <<'EOF'\ntest -f hello.py && echo there\nEOF\nbash check.sh",
    "rm check.sh",
    "git status --short",
]
"""Light ones, as most of an agent's are: what is measured is the loop around them."""


def steps(rounds: int) -> list[str]:
    """The commands so many times over, then the one that hands in."""
    return COMMANDS * rounds + [f"echo {MARKER} && git add -A && git diff --cached"]
