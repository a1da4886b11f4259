"""Extreme values of every type that ships with PostgreSQL and its contrib modules."""

from __future__ import annotations

from collections.abc import Mapping

SYSTEM: dict[str, list[str]] = {
    "bool": ["true", "false"],
    "int2": ["-32768", "32767"],
    "int4": ["-2147483648", "2147483647"],
    "int8": ["-9223372036854775808", "9223372036854775807"],
    "float4": ["NaN", "-Infinity", "1e-45", "3.4028235e38", "-0"],
    "float8": ["NaN", "Infinity", "5e-324", "1.7976931348623157e308", "0.1"],
    "numeric": ["NaN", "Infinity", "-Infinity", "1e131071", "1e-16383", "0.000", "-1.50"],
    "money": ["-92233720368547758.08", "92233720368547758.07"],
    "text": ["", "🐘\n\t\\N", "x' \" %"],
    "varchar": ["", " trailing  "],
    "bpchar": ["a  ", ""],
    "name": ["x", ""],
    '"char"': ["x", "\\377"],
    "bytea": ["\\x", "\\x00ff5c27"],
    "bit": ["1"],
    "varbit": ["", "10110"],
    "date": ["-infinity", "infinity", "4713-01-01 BC", "5874897-12-31"],
    "time": ["00:00:00", "24:00:00", "23:59:59.999999"],
    "timetz": ["00:00:00+15:59", "24:00:00-15:59"],
    "timestamp": ["-infinity", "infinity", "4713-01-01 BC", "294276-12-31 23:59:59.999999"],
    "timestamptz": ["-infinity", "infinity", "294276-12-31 23:59:59.999999 UTC"],
    "interval": ["178000000 years", "-1 mon +2 days -03:04:05.678901", "infinity"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "json": ['{"a": 1, "a": [null, "\\u00e9"]}', "null", " 1 "],
    "jsonb": ['{"b": 1e100, "a": "é"}', "null", "[]"],
    "jsonpath": ["$.a[*] ? (@ > 1)"],
    "inet": ["::1/64", "255.255.255.255"],
    "cidr": ["10.0.0.0/8", "::/0"],
    "macaddr": ["ff:ff:ff:ff:ff:ff"],
    "macaddr8": ["00:00:00:00:00:00:00:00"],
    "point": ["(NaN,Infinity)"],
    "lseg": ["[(0,0),(1,1)]"],
    "path": ["((0,0),(1,1))", "[(0,0)]"],
    "box": ["(1,1),(0,0)"],
    "polygon": ["((0,0),(1,1),(1,0))"],
    "line": ["{1,2,3}"],
    "circle": ["<(0,0),1>"],
    "tsvector": ["'a':1A,3 'b c'", ""],
    "tsquery": ["'a' & !( 'b':*C <-> 'c' )", ""],
    "oid": ["0", "4294967295"],
    "xid": ["4294967295"],
    "xid8": ["18446744073709551615"],
    "cid": ["4294967295"],
    "tid": ["(4294967295,65535)"],
    "pg_lsn": ["FFFFFFFF/FFFFFFFF", "0/0"],
    "pg_snapshot": ["10:20:10,14,15"],
    "txid_snapshot": ["10:20:10,14,15"],
    "refcursor": ["c"],
    "int2vector": ["1 -2", ""],
    "oidvector": ["1 4294967295", ""],
    "xml": ["<a b='é'>&lt;</a>", "x<b/>y", '<?xml version="1.0" standalone="yes"?><a/>', ""],
    "int4range": ["empty", "(,)", "[1,5)"],
    "int8range": ["[1,)"],
    "numrange": ["(1.5,2.5]", "(,Infinity)"],
    "daterange": ["[2026-01-01,infinity)"],
    "tsrange": ["(,2026-01-01]"],
    "tstzrange": ["[2026-01-01 00:00:00+00,)"],
    "int4multirange": ["{}", "{[1,2),[5,)}"],
    "int8multirange": ["{[1,2)}"],
    "nummultirange": ["{(1.5,2.5]}"],
    "datemultirange": ["{[2026-01-01,2026-01-02)}"],
    "tsmultirange": ["{(,2026-01-01]}"],
    "tstzmultirange": ["{}"],
    "int4[]": ["{}", "{{1,NULL},{3,4}}", "[-1:0]={1,2}"],
    "text[]": ['{"","NULL",NULL,"\\"é,{}"}'],
    "numeric[]": ["{NaN,1.50}"],
    "timestamptz[]": ["{infinity,NULL}"],
    "jsonb[]": ['{"{\\"a\\": 1}"}'],
    "numeric(38,10)": ["1234567890123456789012345678.0123456789"],
    "numeric(5,-2)": ["1234500"],
    "varchar(3)": ["äöü"],
    "char(5)": ["é"],
    "bit(3)": ["101"],
    "timestamp(3)": ["2026-01-01 00:00:00.123"],
    "time(0)": ["12:34:56"],
    "interval year to month": ["2 years 3 mons"],
    "interval second(2)": ["1.25"],
}
# Their binary form, if any, contains object ids; their text contains names.
BY_NAME: dict[str, list[str]] = {
    "regproc": ["now", "-"],
    "regprocedure": ["abs(integer)"],
    "regoper": ["|/"],
    "regoperator": ["+(integer,integer)"],
    "regclass": ["pg_class", "here.thing", "4294967294"],
    "regcollation": ['"C"'],
    "regtype": ["integer", "here.mood[]"],
    "regrole": ["postgres"],
    "regnamespace": ["here"],
    "regconfig": ["simple"],
    "regdictionary": ["simple"],
    "regdatabase": ["postgres"],
    "aclitem": ["postgres=arwdDxt/postgres"],
}
# By extension. Their object ids differ from server to server.
CONTRIB: dict[str, dict[str, list[str]]] = {
    "citext": {"citext": ["Aa", ""]},
    "cube": {"cube": ["(1,2),(3,4)", "()", "(NaN)"]},
    "dblink": {"dblink_pkey_results": ["(1,a)", "(,)"]},
    "earthdistance": {"earth": ["(6378168,0,0)"]},
    "hstore": {"hstore": ['"a"=>NULL, "b=>"=>"\\"c"', ""]},
    "intarray": {"query_int": ["1&!(2|3)"]},
    "isn": {
        "ean13": ["220-000000051-4", "978-0-393-04002-9"],
        "isbn": ["0-393-04002-X"],
        "isbn13": ["978-0-393-04002-9"],
        "ismn": ["M-060-11561-5"],
        "ismn13": ["979-0-060-11561-5"],
        "issn": ["1436-4522"],
        "issn13": ["977-1436-452-00-8"],
        "upc": ["220356483481"],
    },
    "lo": {"lo": ["4294967295"]},
    "ltree": {
        "ltree": ["a.b.c", ""],
        "lquery": ["*.!b|c*@{1,2}.d"],
        "ltxtquery": ["a & !b*@"],
    },
    "seg": {"seg": ["1.50 .. <2.0e3", "~5"]},
    "tablefunc": {
        f"tablefunc_crosstab_{width}": ["(a" + ',b""' * width + ")", "(" + "," * width + ")"]
        for width in (2, 3, 4)
    },
    "vector": {
        "vector": ["[1,2.5,-3]"],
        "halfvec": ["[1,2.5,-3]"],
        "sparsevec": ["{1:1.5,3:2}/5"],
        "vector(3)": ["[1,2,3]"],
    },
}
# No column can be filled with them, whatever the source: their input functions refuse everything.
NOT_LOADABLE = {
    "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary", "gtsvector",
    "gbtreekey2", "gbtreekey4", "gbtreekey8", "gbtreekey16", "gbtreekey32", "gbtreekey_var",
    "ghstore", "intbig_gkey", "ltree_gist", "gtrgm",
}  # fmt: skip
# Values that servers before this version lack.
NEWER = {
    ("interval", "infinity"): 170000,
    ("interval", "-infinity"): 170000,
    ("numeric", "Infinity"): 140000,
    ("numeric", "-Infinity"): 140000,
    ("numrange", "(,Infinity)"): 140000,
    ("numeric(5,-2)", "1234500"): 150000,
    ('"char"', "\\377"): 150000,
    ("regdatabase", "postgres"): 190000,
}
# User-defined types of every kind, nested in each other. The schema is `here`.
OWN_TYPES = (
    "CREATE SCHEMA here",
    "CREATE TYPE here.mood AS ENUM ('sad', 'so, \"so\"', 'glad')",
    "CREATE DOMAIN here.feeling AS here.mood NOT NULL DEFAULT 'sad'",
    "CREATE DOMAIN here.positive AS numeric(8, 2) CHECK (VALUE > 0)",
    "CREATE DOMAIN here.tiny AS here.positive CHECK (VALUE < 10)",
    "CREATE TYPE here.pair AS (a int, b text)",
    "CREATE TYPE here.deep AS (m here.mood, ms here.mood[], p here.pair[], n numeric(5, 1))",
    "CREATE TYPE here.gone AS (a int, b text, c date)",
    "ALTER TYPE here.gone DROP ATTRIBUTE b",
    "CREATE DOMAIN here.pairs AS here.pair[] CHECK (cardinality(VALUE) < 4)",
    "CREATE DOMAIN here.one AS here.deep",
    "CREATE TYPE here.moods AS RANGE (subtype = here.mood, multirange_type_name = here.multimoods)",
    'CREATE TYPE here.texts AS RANGE (subtype = text, collation = "C")',
    "CREATE TYPE here.tinies AS RANGE (subtype = here.tiny)",
    "CREATE TYPE here.lists AS RANGE (subtype = here.mood[])",
    "CREATE TABLE here.thing (id int, mood here.mood, more here.pairs)",
)
OWN: dict[str, list[str]] = {
    "here.mood": ["sad", 'so, "so"', "glad"],
    "here.positive": ["0.01", "999999.99"],
    "here.tiny": ["9.99"],
    "here.pair": ["(1,)", '(,"a,""\\\\")', "(,)"],
    "here.deep": ['(sad,"{sad,""so, \\\\""so\\\\""""}","{""(1,a)"",NULL}",1.5)', "(,{},{},)"],
    "here.gone": ["(1,2026-01-01)"],
    "here.pairs": ['{"(1,a)",NULL}', "[5:5]={NULL}", "{}"],
    "here.one": ["(glad,,,)"],
    "here.moods": ["[sad,glad]", "empty", "(,)"],
    "here.texts": ['["",a)', "empty"],
    "here.tinies": ["[1.00,2.00)"],
    "here.lists": ["[{sad},{glad}]"],
    "here.thing": ["(1,sad,)"],
    "here.thing[]": ['{"(1,sad,)"}'],
    "here.multimoods": ["{[sad,sad],[glad,glad]}", "{}"],
}


def known_values(values: Mapping[str, list[str]], version: int) -> dict[str, list[str]]:
    """Return the values that servers of a major version have, and the types that have any."""
    known = {
        type_: [value for value in every if NEWER.get((type_, value), 0) <= version * 10000]
        for type_, every in values.items()
    }
    return {type_: type_values for type_, type_values in known.items() if type_values}
