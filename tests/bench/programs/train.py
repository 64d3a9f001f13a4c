"""Starts the shape that settings.json names."""

from trainer import read_settings

settings = read_settings()
if settings["class"].startswith("Real"):
    import real as shapes
else:
    import frameworks
    import plain

    shapes = plain if hasattr(plain, settings["class"]) else frameworks
getattr(shapes, settings["class"])(settings).run()
