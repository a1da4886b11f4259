-- The type below all domains, and the operator by which it compares values for equality; NULL for
-- an operator of a class for many types, such as enums, which is built in.
WITH RECURSIVE chain AS (
    SELECT oid, typbasetype, typnamespace, typname, typcollation FROM pg_catalog.pg_type WHERE oid = %(oid)s
    UNION ALL
    SELECT t.oid, t.typbasetype, t.typnamespace, t.typname, t.typcollation
    FROM chain JOIN pg_catalog.pg_type AS t ON t.oid = chain.typbasetype
)
SELECT n.nspname, chain.typname, chain.typcollation <> 0, (
    SELECT pg_catalog.format('%%I.%%s', opn.nspname, o.oprname)
    FROM pg_catalog.pg_opclass AS c
    JOIN pg_catalog.pg_am AS a ON a.oid = c.opcmethod AND a.amname IN ('btree', 'hash')
    JOIN pg_catalog.pg_amop AS m ON m.amopfamily = c.opcfamily AND m.amoppurpose = 's'
        AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype
        AND m.amopstrategy = CASE a.amname WHEN 'btree' THEN 3 ELSE 1 END
    JOIN pg_catalog.pg_operator AS o ON o.oid = m.amopopr
    JOIN pg_catalog.pg_namespace AS opn ON opn.oid = o.oprnamespace
    WHERE c.opcintype = chain.oid AND c.opcdefault
    ORDER BY a.amname
    LIMIT 1
)
FROM chain JOIN pg_catalog.pg_namespace AS n ON n.oid = chain.typnamespace
WHERE chain.typbasetype = 0
