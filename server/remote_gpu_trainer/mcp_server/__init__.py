"""The MCP server: the same answers as the command line, over the Model Context Protocol."""
