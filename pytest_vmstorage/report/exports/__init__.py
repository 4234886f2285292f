"""Saved figures in the files of other programs that keep histories and draw dashboards; pure."""
