-- Find each of the objects, or fail.
SELECT (
    pg_catalog.pg_get_object_address(
        need ->> 0,
        ARRAY(SELECT pg_catalog.jsonb_array_elements_text(need -> 1)),
        ARRAY(SELECT pg_catalog.jsonb_array_elements_text(need -> 2))
    )
).objid
FROM pg_catalog.jsonb_array_elements(%s::jsonb) AS n (need)
