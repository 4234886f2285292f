"""On which disk: images, devices, volumes and file systems on the host, made and removed.

- `disk`: a cell's disk and what lies under it; `image`, `layers`, `encryption`: image files
- `block`, `device`, `volume`: block devices that the user lists; `host_file_system`: file systems made for a cell
- `fill`, `template`, `caches`, `space`: data, file systems of guests, page cache and room
- `operations`: images as image operations need them
"""
