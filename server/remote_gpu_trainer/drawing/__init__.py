"""Charts as HTML and SVG, in a page that loads and runs nothing. Python 3.8."""
