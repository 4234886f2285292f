"""The pages of docs/reference, made from the code of the package and from what only people know (`templates/`).

`pages` has all of them by name. Each other module makes one page or two: `axes`, `options`, `fixtures`, `workloads`,
`command`, `files` with `schemas`, `outcomes`, `hooks`, `testing`. `markdown` has tables, headings and templates.
"""
