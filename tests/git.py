"""Repositories of git that tests make."""

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """Call git in a folder, as a user that it knows; returns what it printed."""
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
