"""The nouns of Penstock: tables, columns, partitions, plans, commit records."""
