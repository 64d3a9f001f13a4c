"""The pages of the documentation site, each a pure function of the project's texts and facts."""
