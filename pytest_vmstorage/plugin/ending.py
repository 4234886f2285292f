"""What is left of a run that ends early: an orderly end at SIGTERM, and a journal of its samples."""

from __future__ import annotations

import datetime
import os
import signal
import threading
from pathlib import Path

import pytest

from pytest_vmstorage.plugin.post import post_of


def end_orderly_on_sigterm() -> None:
    """Let SIGTERM end the run as Ctrl-C does: CI systems send it to what they cancel, and guests must go then too."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def journal_path(config: pytest.Config) -> Path:
    """Where this process writes each sample as it ends: all workers of a run into one file."""
    post = post_of(config)
    if post is not None and Path(post.journal).parent.parent == config.rootpath:
        return Path(post.journal)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    return config.rootpath / ".vmstorage" / f"{stamp}-{os.getpid()}.jsonl"
