-- Finds a key that is there twice, and tells the planner that none is.
CREATE UNIQUE INDEX ON pg_temp.penstock_stage ({definitions}) {nulls_equal}
