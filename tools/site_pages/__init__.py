"""The documentation site: pages as pure functions of the project's own Markdown, facts, help texts and schemas. `tools/build_site.py` runs them."""
