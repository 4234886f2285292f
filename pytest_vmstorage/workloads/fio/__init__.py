"""fio: options, job files, output, checks and the presets that are made of it."""
