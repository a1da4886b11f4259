-- Finds a key that is there twice, and tells the planner that none is.
CREATE UNIQUE INDEX ON {stage} ({definitions}) {nulls_equal}
