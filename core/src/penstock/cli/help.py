"""The texts of `penstock --help` and of its commands' help."""

DESCRIPTION = """\
Copies big database tables in parallel partitions, each through a COPY stream
of its own, each committed exactly once. An interrupted run continues where it
stopped.
"""

# Replaced with the backends' example URLs when help is shown.
URLS = "    URL\n"

CONNECTIONS = f"""\
connections:
  A URL, for instance
{URLS}\
  env:NAME reads the URL from the environment variable NAME. That keeps a
  password out of the command line, which every user of the machine can read
  in the process list.
"""

FILE = """\
file:
  Options can come from a TOML file, under the same names, with - or _:
    source = "env:SHOP"
    target = "env:DW"
    table = "public.orders"
    where = "placed_at >= '${SINCE}'"
    columns = ["id", "placed_at", "total"]
    degree = 8
  ${NAME} stands for an environment variable, $${ for a literal ${.
  The command line overrides the file.
"""

EXIT_CODES = """\
exit codes:
    0  done
   64  usage: an option is wrong
   65  a permanent error: trying again will not help; what is committed stays
   70  a bug in Penstock
   75  a transient error: penstock resume may help
   76  columns have parted, and --on-drift does not allow for it
  130  interrupted; penstock resume continues
"""

EXAMPLES = """\
examples:
  penstock plan --source env:SHOP --target env:DW --table public.lineitem
  penstock copy --source env:SHOP --target env:DW --table public.lineitem
  penstock copy orders.toml --where "placed_at >= '2026-01-01'"
  penstock runs --target env:DW
  penstock status RUN_ID --target env:DW
  penstock report RUN_ID --target env:DW --html report.html
  penstock tune --source env:SHOP --target env:DW --table public.lineitem
  penstock resume RUN_ID --source env:SHOP --target env:DW
  penstock verify RUN_ID --source env:SHOP --target env:DW

penstock COMMAND --help says more.
"""

STREAMS = """\
how many streams:
  --degree auto begins with two streams and soon has one per CPU of this
  machine. While the copy runs it tries more, as long as more bytes move, and
  fewer, where as many move or the target's sessions mostly wait for locks or
  its log; each change is shown with its reason. A number stays as it is,
  whatever is measured.
  A source that serves users: --max-rate 50MB keeps all streams together below
  50 MB a second; --max-lag 30s uses fewer of them, and then none, while its
  standbys (or itself, if it is one) are behind by more.
"""

COPY_EXAMPLES = """\
examples:
  penstock copy --source env:SHOP --target env:DW --table public.lineitem
  penstock copy --source env:SHOP --target env:DW --table public.lineitem \\
      --strategy range --key l_orderkey --partitions 64 --mode truncate
  penstock copy --source env:SHOP --target env:DW --table public.events \\
      --strategy time --key created_at --interval '1 day' --mode replace \\
      --where "created_at >= '2026-01-01'"
  penstock copy --source env:SHOP --target env:DW --table public.orders \\
      --mode upsert --incremental xmin --deletes hard
  penstock copy orders.toml --degree -2
  penstock copy orders.toml --max-rate 50MB --max-lag 30s
  penstock copy --source s3://lake/orders/ --target env:DW \\
      --target-table public.orders --strategy files --mode truncate
  penstock copy --source env:SHOP --table public.orders \\
      --target s3://lake/orders/ --mode replace
"""

TUNE_EXAMPLES = """\
examples:
  penstock tune --source env:SHOP --target env:DW --table public.lineitem \\
      --out lineitem.toml --html lineitem.html
  penstock tune --source env:SHOP --target env:DW --table public.lineitem \\
      --mode truncate --with unlogged,deferred --degrees 2,4,8,16 --plan
  penstock copy --source env:SHOP --target env:DW --table public.lineitem \\
      --mode truncate --tuned lineitem.toml --allow-ddl
"""

TUNE = """\
how it measures:
  The same partitions, evenly from the whole table, are copied with each setting
  in turn, after a first copy that is not counted, since it finds cold caches. They
  go to a scratch table like the target's, with its indexes, in a schema of its
  own, penstock_tune_ and eight digits, which is dropped at the end whatever
  happens; after kill -9 the next tune drops it. The target's table is not touched.
  That takes the right to create a schema in the target. Beside a target that is
  files it is a folder.
  Recommended is the smallest setting that takes at most 5% longer than the fastest,
  or as much longer as repeated measurements vary: without options rather than
  with them, and then with fewer streams.
"""

WATERMARK_EXAMPLES = """\
examples:
  penstock watermark list --target env:DW
  penstock watermark show 'public.orders to public.orders' --target env:DW
  penstock watermark set 'public.orders to public.orders' --epoch 12 --target env:DW
  penstock watermark reset 'public.orders to public.orders' --target env:DW
"""

RUN_EXAMPLES = """\
examples:
  penstock runs --target env:DW --status running failed --since 2d
  penstock status orders-7 --target env:DW
  penstock report orders-7 --target env:DW --html orders-7.html
  penstock resume orders-7 --source env:SHOP --target env:DW --degree 4
  penstock verify orders-7 --source env:SHOP --target env:DW --checksum
  penstock verify lake-7 --source env:SHOP --target s3://lake/orders/ \\
      --checksum --show-rows
"""

BATCH_EXAMPLES = """\
examples:
  penstock copy-all --source env:SHOP --target env:DW --tables 'public.*' --mode recreate
  penstock copy-all --source env:SHOP --target env:DW --tables 'public.*' 'sales.*' \\
      --exclude 'public.tmp_*' --target-schema shop --mode truncate --degree 8
  penstock copy-all
  penstock copy-all shop.toml --tables public.orders
"""

BATCH_FILE = """\
FILE has the tables, each with the options of its sections. Without FILE and
without --source it is penstock.toml of the current folder; penstock init writes
a first one.
  source = "env:SHOP"
  target = "env:WAREHOUSE"
  [defaults]
  mode = "upsert"
  incremental = "xmin"
  [tables."public.*"]
  [tables."public.log_*"]
  mode = "append"
  [tables."public.secrets"]
  skip = true
  The most exact section that has an option decides it: one that names the table,
  then the longest pattern, then [defaults].
"""

MANY_PROCESSES = """\
one run in many processes, on many machines:
  penstock create --source env:SHOP --target env:DW --table public.orders --run-id n7
  penstock hold n7 --source env:SHOP --target env:DW      (while the following run)
  penstock resume n7 --source env:SHOP --target env:DW --await-snapshot 60s --only p0001 p0002
  penstock resume n7 --source env:SHOP --target env:DW --await-snapshot 60s --only p0003
  penstock resume n7 --source env:SHOP --target env:DW --await-snapshot 60s
  penstock release n7 --target env:DW
"""
