SELECT digest & {mask}, count(*), sum(digest)::text
FROM (SELECT {digest} AS digest FROM {rows}) AS keys
GROUP BY 1
