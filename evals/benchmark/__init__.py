"""Several systems on the same cases: who is asked, on what, and the page of it."""
