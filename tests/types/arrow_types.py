"""The Arrow types in the files of this folder, by Arrow's own names."""

from __future__ import annotations

import pyarrow as pa

ARROW_TYPES: dict[str, pa.DataType] = {
    str(type_): type_
    for type_ in (
        pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(),
        pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(),
        pa.decimal32(5, 2), pa.decimal64(15, 2), pa.decimal128(15, 2), pa.decimal128(15, 4),
        pa.decimal128(5, -2), pa.decimal256(76, 4), pa.string(), pa.large_string(),
        pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.binary(), pa.large_binary(),
        pa.binary_view(), pa.binary(16), pa.uuid(), pa.json_(), pa.date32(), pa.date64(),
        pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("s"),
        pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"),
        pa.timestamp("us", "Europe/Berlin"), pa.duration("us"), pa.month_day_nano_interval(),
        pa.list_(pa.int32()), pa.list_(pa.field("element", pa.int32())), pa.list_(pa.int64()),
        pa.list_(pa.string()), pa.list_(pa.list_(pa.int32())), pa.large_list(pa.int32()),
        pa.list_(pa.int32(), 3), pa.struct({"a": pa.int32()}),
        pa.struct({"a": pa.int32(), "b": pa.string()}), pa.map_(pa.string(), pa.int64()),
    )
}  # fmt: skip
