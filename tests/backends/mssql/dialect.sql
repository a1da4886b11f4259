-- a table
"my ""schema"""."t]"

-- a text
N'it''s é'

-- some rows
SELECT TOP (5) 1 AS a

-- bound bool true
CAST(N'true' AS bit)

-- bound int2 -5
CAST(N'-5' AS smallint)

-- bound int4 5
CAST(N'5' AS int)

-- bound int8 -9223372036854775808
CAST(N'-9223372036854775808' AS bigint)

-- bound numeric -1.50
CAST(N'-1.50' AS decimal(3,2))

-- bound numeric 1E+3
CAST(N'1000' AS decimal(4,0))

-- bound numeric 0
CAST(N'0' AS decimal(1,0))

-- bound numeric 99999999999999999999999999999999999999
CAST(N'99999999999999999999999999999999999999' AS decimal(38,0))

-- bound float4 1.5
CAST(N'1.5' AS real)

-- bound float8 -1e300
CAST(N'-1e300' AS float)

-- bound date 2026-01-02
CAST(N'2026-01-02' AS date)

-- bound time 12:34:56.123456
CAST(N'12:34:56.123456' AS time(7))

-- bound timestamp 2026-01-02 03:04:05.123456
CAST(N'2026-01-02 03:04:05.123456' AS datetime2(7))

-- bound timestamptz 2026-01-02 03:04:05.123456+00
CAST(N'2026-01-02 03:04:05.123456+00:00' AS datetimeoffset(7))

-- bound timestamptz 2026-01-02 03:04:05Z
CAST(N'2026-01-02 03:04:05+00:00' AS datetimeoffset(7))

-- bound text it's é
N'it''s é'

-- bound varchar a
N'a'

-- bound bytea \x00ff
0x00ff

-- bound bytea \x
0x

-- bound uuid 6f9619ff-8b86-d011-b42d-00c04fc964ff
CAST(N'6f9619ff-8b86-d011-b42d-00c04fc964ff' AS uniqueidentifier)

-- bound uniqueidentifier 6f9619ff-8b86-d011-b42d-00c04fc964ff
CAST(N'6f9619ff-8b86-d011-b42d-00c04fc964ff' AS uniqueidentifier)

-- text of a bound bool
CAST(c AS nvarchar(max))

-- text of a bound int2
CAST(c AS nvarchar(max))

-- text of a bound int4
CAST(c AS nvarchar(max))

-- text of a bound int8
CAST(c AS nvarchar(max))

-- text of a bound numeric
CONVERT(nvarchar(60), c, 2)

-- text of a bound float8
CONVERT(nvarchar(40), c, 3)

-- text of a bound date
CONVERT(varchar(40), c, 121)

-- text of a bound time
CONVERT(varchar(40), c, 121)

-- text of a bound timestamp
CONVERT(varchar(40), CAST(c AS datetime2(7)), 121)

-- text of a bound timestamptz
CONVERT(varchar(40), CAST(SWITCHOFFSET(c, '+00:00') AS datetime2(7)), 121) + '+00'

-- text of a bound text
CAST(c AS nvarchar(max))

-- text of a bound bytea
'\x' + LOWER(CONVERT(varchar(max), CAST(c AS varbinary(8000)), 2))

-- text of a bound uniqueidentifier
LOWER(CAST(c AS varchar(36)))

-- extent whole table
1 = 1

-- extent id < 9
"id" < CAST(N'9' AS int)

-- extent id [1, 9)
"id" >= CAST(N'1' AS int) AND "id" < CAST(N'9' AS int)

-- extent a]"b >= b
"a]""b" >= N'b'

-- extent a]"b [b, c)
CAST("a]""b" AS nvarchar(4000)) >= N'b' AND CAST("a]""b" AS nvarchar(4000)) < N'c'

-- extent id not null
"id" IS NOT NULL

-- extent a]"b is null
"a]""b" IS NULL

-- extent id = 1, 9
"id" IN (CAST(N'1' AS int), CAST(N'9' AS int))

-- extent id: any other value
"id" IS NOT NULL

-- extent blocks [0, 16384)
%%physloc%% < 0x4000000000000000

-- extent blocks [16384, 65535)
%%physloc%% >= 0x4000000000000000 AND %%physloc%% < 0xFFFF000000000000

-- extent blocks [65535, end)
%%physloc%% >= 0xFFFF000000000000

-- extent blocks [0, end)
1 = 1

-- extent hash(id) % 8 = 3
coalesce((CAST(SUBSTRING(HASHBYTES('MD5', CAST("id" AS nvarchar(max))), 1, 4) AS int) & 2147483647)
% 8, 0) = 3

-- extent hash(LEFT(word, 1) -- letter) % 8 = 0
coalesce((CAST(SUBSTRING(HASHBYTES('MD5', CAST((
LEFT(word, 1) -- letter
) AS nvarchar(max))), 1, 4) AS int) & 2147483647) % 8, 0) = 0

-- extent with a condition
(
a = 1 OR b = 2 -- c
) AND "id" < CAST(N'9' AS int)

-- text under SQL_Latin1_General_CP1_CI_AS
"word" < N'1' COLLATE SQL_Latin1_General_CP1_CI_AS

-- varchar under SQL_Latin1_General_CP1_CI_AS
CAST("word" AS nvarchar(4000)) < CAST(N'1' AS nvarchar(4000)) COLLATE SQL_Latin1_General_CP1_CI_AS

-- text under C
CAST(CAST("word" AS nvarchar(max)) COLLATE Latin1_General_100_BIN2_UTF8 AS varchar(max)) + CHAR(0) < CAST(CAST(N'1' AS nvarchar(max)) COLLATE Latin1_General_100_BIN2_UTF8 AS varchar(max)) + CHAR(0)

-- int4 under C
"word" < CAST(N'1' AS int)

-- a listed value under a collation
CAST(value AS nvarchar(4000)) COLLATE SQL_Latin1_General_CP1_CI_AS

-- by bytes without a collation of UTF-8
CAST(value AS nvarchar(4000)) COLLATE Latin1_General_BIN2 + NCHAR(0)

-- keys that are written differently
NOT EXISTS (SELECT CAST(CAST(t."k" AS nvarchar(max)) AS varbinary(max)) INTERSECT SELECT CAST(CAST(s."k" AS nvarchar(max)) AS varbinary(max)))

-- merge by a text
UPDATE t SET "n" = s."n", "k" = s."k" FROM t AS t JOIN s AS s ON t."id" = s."id" AND t."k" = s."k" WHERE NOT EXISTS (SELECT t."n" INTERSECT SELECT s."n") OR NOT EXISTS (SELECT CAST(CAST(t."k" AS nvarchar(max)) AS varbinary(max)) INTERSECT SELECT CAST(CAST(s."k" AS nvarchar(max)) AS varbinary(max)));
INSERT INTO t ("id", "k", "n") SELECT s."id", s."k", s."n" FROM s AS s WHERE NOT EXISTS (SELECT 1 FROM t AS t WHERE t."id" = s."id" AND t."k" = s."k")

-- merge of keys alone
UPDATE t SET "k" = s."k" FROM t AS t JOIN s AS s ON t."k" = s."k" WHERE NOT EXISTS (SELECT CAST(CAST(t."k" AS nvarchar(max)) AS varbinary(max)) INTERSECT SELECT CAST(CAST(s."k" AS nvarchar(max)) AS varbinary(max)));
INSERT INTO t ("k") SELECT s."k" FROM s AS s WHERE NOT EXISTS (SELECT 1 FROM t AS t WHERE t."k" = s."k")

-- merge of numbers alone
INSERT INTO t ("id") SELECT s."id" FROM s AS s WHERE NOT EXISTS (SELECT 1 FROM t AS t WHERE t."id" = s."id")

-- windows of 1 day
SELECT CAST(DATEADD(day, CASE WHEN n.i < DATEDIFF(day, CAST(CAST(CAST(FIRST AS datetime2(6)) AS
date) AS datetime2(6)), LAST) / 1 + 1 THEN n.i * 1 END, CAST(CAST(CAST(FIRST AS datetime2(6)) AS
date) AS datetime2(6))) AS datetime2(7)) AS start FROM (SELECT d0.d * 1 AS i FROM (SELECT 0 AS d
UNION ALL SELECT 1 AS d UNION ALL SELECT 2 AS d UNION ALL SELECT 3 AS d UNION ALL SELECT 4 AS d
UNION ALL SELECT 5 AS d UNION ALL SELECT 6 AS d UNION ALL SELECT 7 AS d UNION ALL SELECT 8 AS d
UNION ALL SELECT 9 AS d) AS d0) AS n WHERE n.i < 5 AND DATEADD(day, CASE WHEN n.i < DATEDIFF(day,
CAST(CAST(CAST(FIRST AS datetime2(6)) AS date) AS datetime2(6)), LAST) / 1 + 1 THEN n.i * 1 END,
CAST(CAST(CAST(FIRST AS datetime2(6)) AS date) AS datetime2(6))) <= LAST

-- windows of 2 Weeks
SELECT CAST(DATEADD(day, CASE WHEN n.i < DATEDIFF(day, DATEADD(day, -(DATEDIFF(day, '1900-01-01',
CAST(FIRST AS datetime2(6))) % 7), CAST(CAST(CAST(FIRST AS datetime2(6)) AS date) AS datetime2(6))),
LAST) / 14 + 1 THEN n.i * 14 END, DATEADD(day, -(DATEDIFF(day, '1900-01-01', CAST(FIRST AS
datetime2(6))) % 7), CAST(CAST(CAST(FIRST AS datetime2(6)) AS date) AS datetime2(6)))) AS
datetime2(7)) AS start FROM (SELECT d0.d * 1 AS i FROM (SELECT 0 AS d UNION ALL SELECT 1 AS d UNION
ALL SELECT 2 AS d UNION ALL SELECT 3 AS d UNION ALL SELECT 4 AS d UNION ALL SELECT 5 AS d UNION ALL
SELECT 6 AS d UNION ALL SELECT 7 AS d UNION ALL SELECT 8 AS d UNION ALL SELECT 9 AS d) AS d0) AS n
WHERE n.i < 5 AND DATEADD(day, CASE WHEN n.i < DATEDIFF(day, DATEADD(day, -(DATEDIFF(day,
'1900-01-01', CAST(FIRST AS datetime2(6))) % 7), CAST(CAST(CAST(FIRST AS datetime2(6)) AS date) AS
datetime2(6))), LAST) / 14 + 1 THEN n.i * 14 END, DATEADD(day, -(DATEDIFF(day, '1900-01-01',
CAST(FIRST AS datetime2(6))) % 7), CAST(CAST(CAST(FIRST AS datetime2(6)) AS date) AS datetime2(6))))
<= LAST

-- windows of 3 months
SELECT CAST(DATEADD(month, CASE WHEN n.i < DATEDIFF(month, CAST(DATEFROMPARTS(YEAR(CAST(FIRST AS
datetime2(6))), 1, 1) AS datetime2(6)), LAST) / 3 + 1 THEN n.i * 3 END,
CAST(DATEFROMPARTS(YEAR(CAST(FIRST AS datetime2(6))), 1, 1) AS datetime2(6))) AS datetime2(7)) AS
start FROM (SELECT d0.d * 1 AS i FROM (SELECT 0 AS d UNION ALL SELECT 1 AS d UNION ALL SELECT 2 AS d
UNION ALL SELECT 3 AS d UNION ALL SELECT 4 AS d UNION ALL SELECT 5 AS d UNION ALL SELECT 6 AS d
UNION ALL SELECT 7 AS d UNION ALL SELECT 8 AS d UNION ALL SELECT 9 AS d) AS d0) AS n WHERE n.i < 5
AND DATEADD(month, CASE WHEN n.i < DATEDIFF(month, CAST(DATEFROMPARTS(YEAR(CAST(FIRST AS
datetime2(6))), 1, 1) AS datetime2(6)), LAST) / 3 + 1 THEN n.i * 3 END,
CAST(DATEFROMPARTS(YEAR(CAST(FIRST AS datetime2(6))), 1, 1) AS datetime2(6))) <= LAST

-- windows of 15 minutes
SELECT CAST(DATEADD(minute, CASE WHEN n.i < DATEDIFF(minute, DATEADD(hour, DATEPART(hour, CAST(FIRST
AS datetime2(6))), CAST(CAST(CAST(FIRST AS datetime2(6)) AS date) AS datetime2(6))), LAST) / 15 + 1
THEN n.i * 15 END, DATEADD(hour, DATEPART(hour, CAST(FIRST AS datetime2(6))), CAST(CAST(CAST(FIRST
AS datetime2(6)) AS date) AS datetime2(6)))) AS datetime2(7)) AS start FROM (SELECT d0.d * 1 AS i
FROM (SELECT 0 AS d UNION ALL SELECT 1 AS d UNION ALL SELECT 2 AS d UNION ALL SELECT 3 AS d UNION
ALL SELECT 4 AS d UNION ALL SELECT 5 AS d UNION ALL SELECT 6 AS d UNION ALL SELECT 7 AS d UNION ALL
SELECT 8 AS d UNION ALL SELECT 9 AS d) AS d0) AS n WHERE n.i < 5 AND DATEADD(minute, CASE WHEN n.i <
DATEDIFF(minute, DATEADD(hour, DATEPART(hour, CAST(FIRST AS datetime2(6))), CAST(CAST(CAST(FIRST AS
datetime2(6)) AS date) AS datetime2(6))), LAST) / 15 + 1 THEN n.i * 15 END, DATEADD(hour,
DATEPART(hour, CAST(FIRST AS datetime2(6))), CAST(CAST(CAST(FIRST AS datetime2(6)) AS date) AS
datetime2(6)))) <= LAST

-- windows of 1 year
SELECT CAST(DATEADD(year, CASE WHEN n.i < DATEDIFF(year, CAST(DATEFROMPARTS(YEAR(CAST(FIRST AS
datetime2(6))), 1, 1) AS datetime2(6)), LAST) / 1 + 1 THEN n.i * 1 END,
CAST(DATEFROMPARTS(YEAR(CAST(FIRST AS datetime2(6))), 1, 1) AS datetime2(6))) AS datetime2(7)) AS
start FROM (SELECT d0.d * 1 AS i FROM (SELECT 0 AS d UNION ALL SELECT 1 AS d UNION ALL SELECT 2 AS d
UNION ALL SELECT 3 AS d UNION ALL SELECT 4 AS d UNION ALL SELECT 5 AS d UNION ALL SELECT 6 AS d
UNION ALL SELECT 7 AS d UNION ALL SELECT 8 AS d UNION ALL SELECT 9 AS d) AS d0) AS n WHERE n.i < 5
AND DATEADD(year, CASE WHEN n.i < DATEDIFF(year, CAST(DATEFROMPARTS(YEAR(CAST(FIRST AS
datetime2(6))), 1, 1) AS datetime2(6)), LAST) / 1 + 1 THEN n.i * 1 END,
CAST(DATEFROMPARTS(YEAR(CAST(FIRST AS datetime2(6))), 1, 1) AS datetime2(6))) <= LAST

-- windows of 36 hours
SELECT CAST(DATEADD(hour, CASE WHEN n.i < DATEDIFF(hour, CAST(CAST(CAST(FIRST AS datetime2(6)) AS
date) AS datetime2(6)), LAST) / 36 + 1 THEN n.i * 36 END, CAST(CAST(CAST(FIRST AS datetime2(6)) AS
date) AS datetime2(6))) AS datetime2(7)) AS start FROM (SELECT d0.d * 1 AS i FROM (SELECT 0 AS d
UNION ALL SELECT 1 AS d UNION ALL SELECT 2 AS d UNION ALL SELECT 3 AS d UNION ALL SELECT 4 AS d
UNION ALL SELECT 5 AS d UNION ALL SELECT 6 AS d UNION ALL SELECT 7 AS d UNION ALL SELECT 8 AS d
UNION ALL SELECT 9 AS d) AS d0) AS n WHERE n.i < 5 AND DATEADD(hour, CASE WHEN n.i < DATEDIFF(hour,
CAST(CAST(CAST(FIRST AS datetime2(6)) AS date) AS datetime2(6)), LAST) / 36 + 1 THEN n.i * 36 END,
CAST(CAST(CAST(FIRST AS datetime2(6)) AS date) AS datetime2(6))) <= LAST

-- canonical integer of int
CAST("c" AS nvarchar(max))

-- canonical boolean of bit
CASE "c" WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE CAST("c" AS nvarchar(max)) END

-- canonical decimal of decimal(15,2)
CASE WHEN CHARINDEX('.', CAST("c" AS varchar(60))) = 0 THEN CAST("c" AS varchar(60)) WHEN
RIGHT(REPLACE(RTRIM(REPLACE(CAST("c" AS varchar(60)), '0', ' ')), ' ', '0'), 1) = '.' THEN
REPLACE(REPLACE(RTRIM(REPLACE(CAST("c" AS varchar(60)), '0', ' ')), ' ', '0'), '.', '') ELSE
REPLACE(RTRIM(REPLACE(CAST("c" AS varchar(60)), '0', ' ')), ' ', '0') END

-- canonical decimal of money
CASE WHEN CHARINDEX('.', CONVERT(varchar(60), "c", 2)) = 0 THEN CONVERT(varchar(60), "c", 2) WHEN
RIGHT(REPLACE(RTRIM(REPLACE(CONVERT(varchar(60), "c", 2), '0', ' ')), ' ', '0'), 1) = '.' THEN
REPLACE(REPLACE(RTRIM(REPLACE(CONVERT(varchar(60), "c", 2), '0', ' ')), ' ', '0'), '.', '') ELSE
REPLACE(RTRIM(REPLACE(CONVERT(varchar(60), "c", 2), '0', ' ')), ' ', '0') END

-- canonical float of float
REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(CONVERT(varchar(64),
CAST(CAST("c" AS float) AS varbinary(8)), 2), '0', 'g'), '1', 'h'), '2', '0010'), '3', '0011'), '4',
'0100'), '5', '0101'), '6', '0110'), '7', '0111'), '8', '1000'), '9', '1001'), 'A', '1010'), 'B',
'1011'), 'C', '1100'), 'D', '1101'), 'E', '1110'), 'F', '1111'), 'g', '0000'), 'h', '0001')

-- canonical text of nvarchar(9)
CAST("c" AS nvarchar(max))

-- canonical text of xml
CAST("c" AS nvarchar(max))

-- canonical text of hierarchyid
"c".ToString()

-- canonical text of sql_variant
CAST("c" AS nvarchar(4000))

-- canonical bytes of varbinary(9)
LOWER(CONVERT(varchar(max), CAST("c" AS varbinary(max)), 2))

-- canonical bytes of geometry
LOWER(CONVERT(varchar(max), CAST("c".STAsBinary() AS varbinary(max)), 2))

-- canonical date of date
CAST(DATEDIFF(day, '1970-01-01', "c") AS varchar(20))

-- canonical time of time(6)
CAST(DATEDIFF_BIG(microsecond, '00:00', "c") AS varchar(20))

-- canonical timestamp of datetime
CAST(DATEDIFF_BIG(microsecond, '1970-01-01', CAST("c" AS datetime2(3))) AS varchar(20))

-- canonical timestamp of datetimeoffset(6)
CAST(DATEDIFF_BIG(microsecond, '1970-01-01', CAST(SWITCHOFFSET("c", '+00:00') AS datetime2(7))) AS
varchar(20))

-- canonical uuid of uniqueidentifier
LOWER(CAST("c" AS varchar(36)))

-- hash
(CAST(SUBSTRING(HASHBYTES('MD5', CAST("c" AS nvarchar(max))), 1, 4) AS int) & 2147483647)

-- a canonical text with its length
COALESCE(CAST(DATALENGTH(CAST(c COLLATE Latin1_General_100_BIN2_UTF8 AS varchar(max))) AS
varchar(20)) + ':' + CAST(c AS nvarchar(max)), '-')

-- the same without a collation of UTF-8
COALESCE(CAST(DATALENGTH(CAST(c AS varchar(max))) AS varchar(20)) + ':' + CAST(c AS nvarchar(max)),
'-')

-- digest
(CAST(SUBSTRING(HASHBYTES('SHA2_256', CAST(c COLLATE Latin1_General_100_BIN2_UTF8 AS
varchar(max))), 1, 7) AS bigint) * 16 + CAST(SUBSTRING(HASHBYTES('SHA2_256', CAST(c COLLATE
Latin1_General_100_BIN2_UTF8 AS varchar(max))), 8, 1) AS int) / 16)

-- digest without a collation of UTF-8
(CAST(SUBSTRING(HASHBYTES('SHA2_256', CAST(c AS varchar(max))), 1, 7) AS bigint) * 16 +
CAST(SUBSTRING(HASHBYTES('SHA2_256', CAST(c AS varchar(max))), 8, 1) AS int) / 16)

-- sum of digests
CAST(COALESCE(SUM(CAST(digest AS decimal(38,0))), 0) AS varchar(40))

-- texts that are joined
a + b
