"""The eval harness: cases, systems that answer them, grades, and the page of results."""
