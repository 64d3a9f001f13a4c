"""Install the server and the skill into coding agents, and uninstall them."""
