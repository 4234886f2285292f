"""A report that people look at: one HTML file with tables and SVG made here, complete without script and style."""
