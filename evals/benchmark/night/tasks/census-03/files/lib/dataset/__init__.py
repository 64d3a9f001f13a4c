from .mars import Mars as mars
