"""The part of planning that talks to the catalogs: it reads facts and answers questions."""
