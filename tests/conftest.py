"""What holds for all tests: whoever starts them, a process that they send Ctrl-C ends."""

from __future__ import annotations

import signal

# a shell's background job ignores Ctrl-C, and so would all that is started here, of which some are sent one
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
