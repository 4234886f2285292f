"""What can be measured on a lab host, axis by axis: trials through its shell, and what follows from them.

`trials` asks the host, `seen` is all that is known of it; `image`, `device` and `backing` judge the axes, as the rules
of the same names do; `examine` does all of it for a host and puts the findings together, `text` lays them out.
"""
