//! Arrow's arrays, encoded in the binary form of COPY.
//!
//! The form: <https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT>.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buffer::Buffer;

const DAYS: i32 = 10_957;
const MICROSECONDS: i64 = DAYS as i64 * 86_400_000_000;

/// How a value is written; by the name that Python has for it, see `writing.py`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Bool,
    /// Numbers of so many bytes: integers, floats, times.
    Bytes2,
    Bytes4,
    Bytes8,
    Date,
    Timestamp,
    /// Microseconds, as an interval.
    Duration,
    Uuid,
    /// In UTF-8, which is checked.
    Text,
    Jsonb,
    Bytes,
    Decimal {
        scale: u32,
    },
}

fn parse(name: &str) -> Option<Kind> {
    if let Some(scale) = name.strip_prefix("decimal:") {
        return scale
            .parse()
            .ok()
            .filter(|&scale| scale <= 38)
            .map(|scale| Kind::Decimal { scale });
    }
    Some(match name {
        "bool" => Kind::Bool,
        "bytes2" => Kind::Bytes2,
        "bytes4" => Kind::Bytes4,
        "bytes8" => Kind::Bytes8,
        "date" => Kind::Date,
        "timestamp" => Kind::Timestamp,
        "duration" => Kind::Duration,
        "uuid" => Kind::Uuid,
        "text" => Kind::Text,
        "jsonb" => Kind::Jsonb,
        "bytes" => Kind::Bytes,
        _ => return None,
    })
}

/// A kind, and the object id of its type where it is an element of arrays.
type Form = (Kind, Option<u32>);

/// A batch does not fit its encoder.
#[derive(Debug)]
struct Broken;

/// Encodes one batch after another.
#[pyclass(frozen)]
pub struct Encoder {
    forms: Vec<Form>,
}

/// An array as Python gives it: its offset, its buffers, and the array within it.
#[derive(FromPyObject)]
struct Given(usize, Vec<Option<PyBuffer<i8>>>, Vec<Given>);

#[pymethods]
impl Encoder {
    /// Parameters:
    ///     forms: of each column its kind; of an array its elements', and their type's object id.
    ///
    /// Raises:
    ///     ValueError: there is no such kind.
    #[new]
    fn new(forms: Vec<(String, Option<u32>)>) -> PyResult<Self> {
        let parsed = forms.into_iter().map(|(name, element)| match parse(&name) {
            Some(kind) => Ok((kind, element)),
            None => Err(PyValueError::new_err(format!("no kind {name}"))),
        });
        Ok(Self {
            forms: parsed.collect::<PyResult<_>>()?,
        })
    }

    /// Parameters:
    ///     head: what comes before the rows.
    ///     rows: how many there are.
    ///     arrays: of each column.
    ///
    /// Raises:
    ///     ValueError: a value has no such form; its arguments are the column and the row.
    fn encode(
        &self,
        py: Python<'_>,
        head: Vec<u8>,
        rows: usize,
        arrays: Vec<Given>,
    ) -> PyResult<Buffer> {
        if arrays.len() != self.forms.len() {
            return Err(PyValueError::new_err(
                "another number of arrays than of columns",
            ));
        }
        let columns: Result<Vec<Column<'_>>, Broken> = self
            .forms
            .iter()
            .zip(&arrays)
            .map(|(form, array)| Column::new(*form, array, rows))
            .collect();
        let columns = columns.map_err(|Broken| PyValueError::new_err("an array is too short"))?;
        py.detach(|| encoded(head, rows, &columns))
            .map(Buffer::new)
            .map_err(PyValueError::new_err)
    }
}

struct Column<'a> {
    kind: Kind,
    first: usize,
    valid: Option<&'a [u8]>,
    /// Of texts and arrays.
    offsets: &'a [u8],
    values: &'a [u8],
    element: Option<(u32, Box<Column<'a>>)>,
}

/// Rows are written in blocks, a column at a time: so each loop is a tight one, over values that
/// lie side by side, and what a block becomes stays in the processor's cache.
const BLOCK: usize = 256;

/// A row for which something fails.
type Row = usize;

/// The decimals of a block, which are worked out when they are measured.
#[derive(Default)]
struct Worked(Vec<Numeric>);

impl<'a> Column<'a> {
    fn new((kind, element): Form, given: &'a Given, rows: usize) -> Result<Self, Broken> {
        let Given(first, buffers, inner) = given;
        let end = first.checked_add(rows).ok_or(Broken)?;
        let buffer = |place: usize| buffers.get(place).and_then(Option::as_ref).map(bytes_of);
        let valid = buffer(0);
        if valid.is_some_and(|bits| bits.len() < end.div_ceil(8)) {
            return Err(Broken);
        }
        let mut found = Column {
            kind,
            first: *first,
            valid,
            offsets: &[],
            values: &[],
            element: None,
        };
        let strings = element.is_none() && matches!(kind, Kind::Text | Kind::Jsonb | Kind::Bytes);
        if element.is_some() || strings {
            found.offsets = buffer(1).unwrap_or_default();
            if rows > 0 && found.offsets.len() / 4 < end + 1 {
                return Err(Broken);
            }
        }
        match (element, inner.first()) {
            (Some(oid), Some(inner)) => {
                let length = if rows > 0 {
                    found.offset(end).ok_or(Broken)?
                } else {
                    0
                };
                let inner = Column::new((kind, None), inner, length)?;
                found.element = Some((oid, Box::new(inner)));
            }
            (Some(_), None) => return Err(Broken),
            (None, _) if strings => found.values = buffer(2).unwrap_or_default(),
            (None, _) => {
                found.values = buffer(1).unwrap_or_default();
                let needed = match kind {
                    Kind::Bool => end.div_ceil(8),
                    _ => end.checked_mul(width(kind)).ok_or(Broken)?,
                };
                if rows > 0 && found.values.len() < needed {
                    return Err(Broken);
                }
            }
        }
        Ok(found)
    }

    fn offset(&self, place: usize) -> Option<usize> {
        usize::try_from(i32::from_le_bytes(number(self.offsets, place)?)).ok()
    }

    /// The bounds of each of these texts. A negative offset makes a bound that no text has.
    fn ranges(&self, first: Row, rows: usize) -> Option<impl Iterator<Item = (usize, usize)>> {
        let start = 4 * (self.first + first);
        let offsets = self.offsets.get(start..start + 4 * (rows + 1))?;
        let place = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes) as usize;
        let ends = offsets[4..].chunks_exact(4);
        let ranges = offsets.chunks_exact(4).zip(ends);
        Some(ranges.map(move |(start, end)| (place(start), place(end))))
    }

    /// Where an array begins and ends.
    fn range(&self, row: Row) -> Option<(usize, usize)> {
        let place = self.first + row;
        let (start, end) = (self.offset(place)?, self.offset(place + 1)?);
        (start <= end && end - start <= MOST).then_some((start, end))
    }

    fn is_null(&self, row: Row) -> bool {
        let place = self.first + row;
        let unset = |bits: &[u8]| {
            bits.get(place / 8)
                .is_some_and(|byte| byte >> (place % 8) & 1 == 0)
        };
        self.valid.is_some_and(unset)
    }

    /// Add to the sizes of so many rows those of this column's fields.
    fn measure(&self, first: Row, sizes: &mut [usize], worked: &mut Worked) -> Result<(), Row> {
        if self.element.is_some() {
            for (row, size) in (first..).zip(sizes) {
                *size += 4;
                if !self.is_null(row) {
                    let (start, end) = self.range(row).ok_or(row)?;
                    *size += self.array_size(start, end, worked).ok_or(row)?;
                }
            }
            return Ok(());
        }
        if let Kind::Text | Kind::Jsonb | Kind::Bytes = self.kind {
            let version = usize::from(self.kind == Kind::Jsonb);
            let ranges = self.ranges(first, sizes.len()).ok_or(first)?;
            for ((row, size), (start, end)) in (first..).zip(sizes).zip(ranges) {
                *size += 4;
                if !self.is_null(row) {
                    let length = end.checked_sub(start).filter(|&length| length <= MOST);
                    *size += length.ok_or(row)? + version;
                }
            }
            return Ok(());
        }
        if let Kind::Decimal { scale } = self.kind {
            worked.0.resize(sizes.len(), Numeric::default());
            for ((row, size), found) in (first..).zip(sizes).zip(&mut worked.0) {
                *size += 4;
                if !self.is_null(row) {
                    let units = number(self.values, self.first + row).ok_or(row)?;
                    found.set(i128::from_le_bytes(units), scale);
                    *size += found.bytes().len();
                }
            }
            return Ok(());
        }
        let width = match self.kind {
            Kind::Bool => 1,
            Kind::Duration => 16,
            kind => width(kind),
        };
        if self.valid.is_none() {
            sizes.iter_mut().for_each(|size| *size += 4 + width);
            return Ok(());
        }
        for (row, size) in (first..).zip(sizes) {
            *size += 4 + if self.is_null(row) { 0 } else { width };
        }
        Ok(())
    }

    /// Check that texts are in UTF-8. Whatever NULLs hide does not count.
    fn check(&self, first: Row, rows: usize) -> Result<(), Row> {
        if self.element.is_some() || !matches!(self.kind, Kind::Text | Kind::Jsonb) {
            return Ok(());
        }
        let start = self.offset(self.first + first).ok_or(first)?;
        let end = self.offset(self.first + first + rows).ok_or(first)?;
        if self.values.get(start..end).ok_or(first)?.is_ascii() {
            return Ok(());
        }
        let ranges = self.ranges(first, rows).ok_or(first)?;
        for (row, (start, end)) in (first..).zip(ranges) {
            let text = self.values.get(start..end).ok_or(row)?;
            if !self.is_null(row) && std::str::from_utf8(text).is_err() {
                return Err(row);
            }
        }
        Ok(())
    }

    fn array_size(&self, start: usize, end: usize, worked: &mut Worked) -> Option<usize> {
        let (_, inner) = self.element.as_ref()?;
        let mut sizes = vec![0; end - start];
        inner.measure(start, &mut sizes, worked).ok()?;
        Some(array_head(end - start) + sizes.iter().sum::<usize>())
    }

    /// Write the fields of so many rows, each at its place, and move the places behind them.
    fn write(
        &self,
        first: Row,
        places: &mut [usize],
        worked: &Worked,
        out: &mut [u8],
    ) -> Result<(), Row> {
        let values = self.values;
        let moved = |bytes: Option<[u8; 8]>, by: i64| {
            i64::from_le_bytes(bytes?)
                .checked_sub(by)
                .map(i64::to_be_bytes)
        };
        match self.kind {
            _ if self.element.is_some() => self.write_arrays(first, places, out),
            Kind::Bool => self.write_fixed(first, places, out, |place| {
                values.get(place / 8).map(|byte| [byte >> (place % 8) & 1])
            }),
            Kind::Bytes2 => self.write_fixed(first, places, out, |place| {
                number::<2>(values, place).map(reversed)
            }),
            Kind::Bytes4 => self.write_fixed(first, places, out, |place| {
                number::<4>(values, place).map(reversed)
            }),
            Kind::Bytes8 => self.write_fixed(first, places, out, |place| {
                number::<8>(values, place).map(reversed)
            }),
            Kind::Date => self.write_fixed(first, places, out, |place| {
                let day = i32::from_le_bytes(number(values, place)?);
                day.checked_sub(DAYS).map(i32::to_be_bytes)
            }),
            Kind::Timestamp => self.write_fixed(first, places, out, |place| {
                moved(number(values, place), MICROSECONDS)
            }),
            Kind::Duration => self.write_fixed(first, places, out, |place| {
                let mut interval = [0; 16];
                interval[..8].copy_from_slice(&moved(number(values, place), 0)?);
                Some(interval)
            }),
            Kind::Uuid => self.write_fixed(first, places, out, |place| number::<16>(values, place)),
            Kind::Text | Kind::Bytes => self.write_texts::<false>(first, places, out),
            Kind::Jsonb => self.write_texts::<true>(first, places, out),
            Kind::Decimal { .. } => self.write_each(first, places, out, |row, place, out| {
                let bytes = worked.0.get(row - first)?.bytes();
                put(out, place, &(bytes.len() as i32).to_be_bytes());
                put(out, place, bytes);
                Some(())
            }),
        }
    }

    /// Fields of one width. None of `value`: it has no such form.
    fn write_fixed<const N: usize>(
        &self,
        first: Row,
        places: &mut [usize],
        out: &mut [u8],
        value: impl Fn(usize) -> Option<[u8; N]>,
    ) -> Result<(), Row> {
        self.write_each(first, places, out, |row, place, out| {
            let value = value(self.first + row)?;
            let end = *place + 4 + N;
            let (length, field) = out[*place..end].split_at_mut(4);
            length.copy_from_slice(&(N as i32).to_be_bytes());
            field.copy_from_slice(&value);
            *place = end;
            Some(())
        })
    }

    fn write_texts<const JSONB: bool>(
        &self,
        first: Row,
        places: &mut [usize],
        out: &mut [u8],
    ) -> Result<(), Row> {
        let ranges = self.ranges(first, places.len()).ok_or(first)?;
        for ((row, place), (start, end)) in (first..).zip(places).zip(ranges) {
            if self.is_null(row) {
                put(out, place, &(-1_i32).to_be_bytes());
                continue;
            }
            let text = self.values.get(start..end).ok_or(row)?;
            let length = (text.len() + usize::from(JSONB)) as i32;
            put(out, place, &length.to_be_bytes());
            if JSONB {
                put(out, place, &[1]);
            }
            put(out, place, text);
        }
        Ok(())
    }

    fn write_each(
        &self,
        first: Row,
        places: &mut [usize],
        out: &mut [u8],
        write: impl Fn(Row, &mut usize, &mut [u8]) -> Option<()>,
    ) -> Result<(), Row> {
        if self.valid.is_none() {
            for (row, place) in (first..).zip(places) {
                write(row, place, out).ok_or(row)?;
            }
            return Ok(());
        }
        for (row, place) in (first..).zip(places) {
            if self.is_null(row) {
                put(out, place, &(-1_i32).to_be_bytes());
            } else {
                write(row, place, out).ok_or(row)?;
            }
        }
        Ok(())
    }

    /// See `array_recv` in arrayfuncs.c.
    fn write_arrays(&self, first: Row, places: &mut [usize], out: &mut [u8]) -> Result<(), Row> {
        let Some((oid, inner)) = &self.element else {
            return Err(first);
        };
        self.write_each(first, places, out, |row, place, out| {
            let (start, end) = self.range(row)?;
            let nulls = (start..end).any(|element| inner.is_null(element));
            let mut worked = Worked::default();
            let mut ends = vec![0; end - start];
            inner.measure(start, &mut ends, &mut worked).ok()?;
            let size = array_head(end - start) + ends.iter().sum::<usize>();
            let head = [
                size as i32,
                i32::from(end > start),
                i32::from(nulls),
                *oid as i32,
            ];
            let dimension = [(end - start) as i32, 1];
            let shown = if end > start { &dimension[..] } else { &[] };
            for number in head.iter().chain(shown) {
                put(out, place, &number.to_be_bytes());
            }
            for end in &mut ends {
                let size = std::mem::replace(end, *place);
                *place += size;
            }
            inner.write(start, &mut ends, &worked, out).ok()
        })
    }
}

/// The server takes no longer value.
const MOST: usize = (1 << 30) - 1;

/// What comes before an array's elements, without its length.
fn array_head(elements: usize) -> usize {
    if elements > 0 { 12 + 8 } else { 12 }
}

fn put(out: &mut [u8], place: &mut usize, bytes: &[u8]) {
    let end = *place + bytes.len();
    copy(&mut out[*place..end], bytes);
    *place = end;
}

/// Most fields are short: for those a call of memcpy would take longer than the copying.
#[inline(always)]
fn copy(out: &mut [u8], bytes: &[u8]) {
    match bytes.len() {
        1 => out[0] = bytes[0],
        2..4 => copy_ends::<2>(out, bytes),
        4..8 => copy_ends::<4>(out, bytes),
        8..16 => copy_ends::<8>(out, bytes),
        16..=32 => copy_ends::<16>(out, bytes),
        _ => out.copy_from_slice(bytes),
    }
}

/// From N to twice N bytes, of which some may be copied twice.
#[inline(always)]
fn copy_ends<const N: usize>(out: &mut [u8], bytes: &[u8]) {
    if let (Some(to), Some(from)) = (out.first_chunk_mut::<N>(), bytes.first_chunk()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (out.last_chunk_mut::<N>(), bytes.last_chunk()) {
        *to = *from;
    }
}

fn width(kind: Kind) -> usize {
    match kind {
        Kind::Bytes2 => 2,
        Kind::Bytes4 | Kind::Date => 4,
        Kind::Uuid | Kind::Decimal { .. } => 16,
        _ => 8,
    }
}

fn bytes_of(buffer: &PyBuffer<i8>) -> &[u8] {
    if buffer.len_bytes() == 0 {
        return &[];
    }
    // SAFETY: so many bytes are there as long as the buffer is; Arrow never changes them.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) }
}

fn number<const N: usize>(values: &[u8], place: usize) -> Option<[u8; N]> {
    values.get(place * N..place * N + N)?.try_into().ok()
}

fn reversed<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    bytes.reverse();
    bytes
}

/// A numeric as it is sent. See `numeric_recv` in numeric.c: how many digits to the base of 10,000
/// there are, the weight of the first one, the sign, how many decimals are shown, and the digits.
#[derive(Clone, Copy, Default)]
struct Numeric {
    bytes: [u8; 8 + 24],
    length: u8,
}

impl Numeric {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }

    fn set(&mut self, value: i128, scale: u32) {
        // So that the last digit ends with the last decimal.
        let filling = (4 - scale % 4) % 4;
        let mut digits = [0_u16; 12];
        let mut first = digits.len();
        let mut rest = value.unsigned_abs();
        if rest <= u128::from(u64::MAX / 1000) {
            rest *= u128::from(10_u64.pow(filling));
        } else if filling > 0 {
            // Apart, since the number may fill all of the 128 bits.
            let power = 10_u128.pow(4 - filling);
            first -= 1;
            digits[first] = (rest % power) as u16 * 10_u16.pow(filling);
            rest /= power;
        }
        while rest > u128::from(u64::MAX) {
            first -= 1;
            digits[first] = (rest % 10_000) as u16;
            rest /= 10_000;
        }
        let mut rest = rest as u64;
        while rest > 0 {
            first -= 1;
            digits[first] = (rest % 10_000) as u16;
            rest /= 10_000;
        }
        let weight = (digits.len() - first) as i32 - 1 - scale.div_ceil(4) as i32;
        let mut end = digits.len();
        while end > first && digits[end - 1] == 0 {
            end -= 1;
        }
        let shown = &digits[first..end];
        let weight = if shown.is_empty() { 0 } else { weight as i16 };
        let sign: u16 = if value < 0 { 0x4000 } else { 0 };
        self.length = 8 + 2 * shown.len() as u8;
        let head = [shown.len() as u16, weight as u16, sign, scale as u16];
        for (number, bytes) in head.iter().chain(shown).zip(self.bytes.chunks_exact_mut(2)) {
            bytes.copy_from_slice(&number.to_be_bytes());
        }
    }
}

/// Where it fails, the column and the row.
fn encoded(head: Vec<u8>, rows: usize, columns: &[Column<'_>]) -> Result<Vec<u8>, (usize, Row)> {
    let mut out = head;
    // A guess; it grows where that is too little.
    out.reserve(rows * (2 + 12 * columns.len()));
    let count = (columns.len() as i16).to_be_bytes();
    let mut worked: Vec<Worked> = columns.iter().map(|_| Worked::default()).collect();
    let mut places = [0; BLOCK];
    for first in (0..rows).step_by(BLOCK) {
        let places = &mut places[..BLOCK.min(rows - first)];
        places.fill(count.len());
        for (place, (column, worked)) in columns.iter().zip(&mut worked).enumerate() {
            column
                .check(first, places.len())
                .and_then(|()| column.measure(first, places, worked))
                .map_err(|row| (place, row))?;
        }
        let mut end = out.len();
        for place in places.iter_mut() {
            let size = std::mem::replace(place, end);
            end += size;
        }
        out.resize(end, 0);
        for place in places.iter_mut() {
            put(&mut out, place, &count);
        }
        for (place, (column, worked)) in columns.iter().zip(&worked).enumerate() {
            column
                .write(first, places, worked, &mut out)
                .map_err(|row| (place, row))?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::Numeric;

    fn of(value: i128, scale: u32) -> Numeric {
        let mut found = Numeric::default();
        found.set(value, scale);
        found
    }

    fn words(value: i128, scale: u32) -> Vec<i16> {
        let found = of(value, scale);
        found
            .bytes()
            .chunks(2)
            .map(|pair| i16::from_be_bytes([pair[0], pair[1]]))
            .collect()
    }

    #[test]
    fn decimals() {
        assert_eq!(words(0, 2), [0, 0, 0, 2]);
        assert_eq!(words(150, 2), [2, 0, 0, 2, 1, 5000]);
        assert_eq!(words(-1, 2), [1, -1, 0x4000, 2, 100]);
        assert_eq!(words(100, 2), [1, 0, 0, 2, 1]);
        assert_eq!(words(10_000, 0), [1, 1, 0, 0, 1]);
        assert_eq!(words(1, 5), [1, -2, 0, 5, 1000]);
        assert_eq!(words(123_456_789, 4), [3, 1, 0, 4, 1, 2345, 6789]);
        let most = words(10_i128.pow(38) - 1, 1);
        assert_eq!((most[0], most[1], most[4], most[14]), (11, 9, 9, 9000));
    }
}
