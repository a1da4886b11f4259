-- An assignment may use the casts of the contexts "a" and "i".
SELECT castsource::int8, casttarget::int8, castcontext::text IN ('a', 'i')
FROM pg_catalog.pg_cast
