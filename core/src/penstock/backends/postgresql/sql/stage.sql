-- A stage has the target's types and none of its constraints.
CREATE TEMPORARY TABLE penstock_stage ON COMMIT DROP AS
SELECT {columns} FROM {table} WITH NO DATA
