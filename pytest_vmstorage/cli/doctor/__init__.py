"""What can be measured on a lab host, axis by axis: trials through its shell, and what follows from them.

`seen` tries the host out and holds all that is known of it; `image`, `device` and `backing` judge the axes, as the
rules of the same names do; `examine` puts the findings together and lays them out as text.
"""
