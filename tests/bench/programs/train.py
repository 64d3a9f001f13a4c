"""Starts the shape that settings.json names."""

import frameworks
import plain
from trainer import read_settings

settings = read_settings()
shape = getattr(plain, settings["class"], None) or getattr(frameworks, settings["class"])
shape(settings).run()
