"""The proof of a cell: for each field what was asked, what each source says, and whether that holds."""
