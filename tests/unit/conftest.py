"""What holds for all unit tests: none fails because the machine is busy."""

from __future__ import annotations

import signal
from importlib.util import find_spec

# a shell's background job ignores Ctrl-C, and so would all that is started here, of which some are sent one
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# links are tested where it is not installed
if find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("unit", deadline=None)
    settings.load_profile("unit")
