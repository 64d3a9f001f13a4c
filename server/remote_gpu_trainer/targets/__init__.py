"""The engines that a script can be rendered for."""
