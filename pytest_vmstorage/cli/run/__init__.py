"""`vmstorage run`: a measurement from the words of a command line, run by pytest as a test file would be.

`words` says which options there are and which words are pytest's; `texts` makes values of what a user wrote;
`request` holds all that is asked, checked; `template` writes the test file that it stands for.
"""
