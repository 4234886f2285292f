"""What can be measured on a lab host, axis by axis: trials through its shell, and what follows from them.

`trials` asks the host, `seen` is all that is known of it; `image`, `device` and `ground` judge the axes, as the rules
of the same names do; `axes` puts their findings together, `examine` does all of it for a host, `text` lays it out.
"""
