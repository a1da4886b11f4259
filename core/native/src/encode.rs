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
    Text,
    Jsonb,
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
        if element.is_some() || matches!(kind, Kind::Text | Kind::Jsonb) {
            found.offsets = buffer(1).unwrap_or_default();
            if rows > 0 && found.offsets.len() / 4 < end + 1 {
                return Err(Broken);
            }
        }
        match (element, inner.first()) {
            (Some(oid), Some(inner)) => {
                let length = if rows > 0 { found.offset(end)? } else { 0 };
                let inner = Column::new((kind, None), inner, length)?;
                found.element = Some((oid, Box::new(inner)));
            }
            (Some(_), None) => return Err(Broken),
            (None, _) if matches!(kind, Kind::Text | Kind::Jsonb) => {
                found.values = buffer(2).unwrap_or_default();
            }
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

    fn offset(&self, place: usize) -> Result<usize, Broken> {
        usize::try_from(i32::from_le_bytes(number(self.offsets, place)?)).map_err(|_| Broken)
    }

    fn is_null(&self, row: usize) -> bool {
        let place = self.first + row;
        let unset = |bits: &[u8]| {
            bits.get(place / 8)
                .is_some_and(|byte| byte >> (place % 8) & 1 == 0)
        };
        self.valid.is_some_and(unset)
    }

    /// Write a field: its length, and the value.
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.is_null(row) {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            return Ok(());
        }
        if let Some((oid, inner)) = &self.element {
            return self.write_array(row, *oid, inner, out);
        }
        let place = self.first + row;
        match self.kind {
            Kind::Bool => {
                let bit = self.values.get(place / 8).ok_or(Broken)? >> (place % 8) & 1;
                field(out, &[bit]);
            }
            Kind::Bytes2 => field(out, &reversed(number::<2>(self.values, place)?)),
            Kind::Bytes4 => field(out, &reversed(number::<4>(self.values, place)?)),
            Kind::Bytes8 => field(out, &reversed(number::<8>(self.values, place)?)),
            Kind::Date => {
                let day = i32::from_le_bytes(number(self.values, place)?);
                field(out, &day.checked_sub(DAYS).ok_or(Broken)?.to_be_bytes());
            }
            Kind::Timestamp => {
                let moment = i64::from_le_bytes(number(self.values, place)?);
                field(
                    out,
                    &moment
                        .checked_sub(MICROSECONDS)
                        .ok_or(Broken)?
                        .to_be_bytes(),
                );
            }
            Kind::Duration => {
                let mut interval = [0; 16];
                interval[..8].copy_from_slice(&reversed(number::<8>(self.values, place)?));
                field(out, &interval);
            }
            Kind::Uuid => field(out, &number::<16>(self.values, place)?),
            Kind::Text | Kind::Jsonb => {
                let (start, end) = (self.offset(place)?, self.offset(place + 1)?);
                let text = self.values.get(start..end).ok_or(Broken)?;
                let version: &[u8] = if self.kind == Kind::Jsonb { &[1] } else { &[] };
                length(out, text.len() + version.len())?;
                out.extend_from_slice(version);
                out.extend_from_slice(text);
            }
            Kind::Decimal { scale } => {
                decimal(out, i128::from_le_bytes(number(self.values, place)?), scale);
            }
        }
        Ok(())
    }

    /// See `array_recv` in arrayfuncs.c.
    fn write_array(
        &self,
        row: usize,
        oid: u32,
        inner: &Column<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let place = self.first + row;
        let (start, end) = (self.offset(place)?, self.offset(place + 1)?);
        let count = i32::try_from(end.checked_sub(start).ok_or(Broken)?).map_err(|_| Broken)?;
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        let nulls = (start..end).any(|element| inner.is_null(element));
        for number in [i32::from(count > 0), i32::from(nulls), oid as i32] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        if count > 0 {
            out.extend_from_slice(&count.to_be_bytes());
            out.extend_from_slice(&1_i32.to_be_bytes());
        }
        for element in start..end {
            inner.write(element, out)?;
        }
        let size = i32::try_from(out.len() - begin - 4).map_err(|_| Broken)?;
        out[begin..begin + 4].copy_from_slice(&size.to_be_bytes());
        Ok(())
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

fn number<const N: usize>(values: &[u8], place: usize) -> Result<[u8; N], Broken> {
    let bytes = values.get(place * N..place * N + N).ok_or(Broken)?;
    bytes.try_into().map_err(|_| Broken)
}

fn reversed<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    bytes.reverse();
    bytes
}

fn length(out: &mut Vec<u8>, length: usize) -> Result<(), Broken> {
    let length = i32::try_from(length).map_err(|_| Broken)?;
    out.extend_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Written at once: that is one look at whether there is room.
fn field<const N: usize>(out: &mut Vec<u8>, value: &[u8; N]) {
    let mut written = [0; 4 + 16];
    written[..4].copy_from_slice(&(N as i32).to_be_bytes());
    written[4..4 + N].copy_from_slice(value);
    out.extend_from_slice(&written[..4 + N]);
}

/// See `numeric_recv` in numeric.c: how many digits to the base of 10,000 there are, the weight of
/// the first one, the sign, how many decimals are shown, and the digits.
fn decimal(out: &mut Vec<u8>, value: i128, scale: u32) {
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
    let size = 8 + 2 * shown.len();
    let mut written = [0; 4 + 8 + 24];
    written[..4].copy_from_slice(&(size as i32).to_be_bytes());
    let head = [shown.len() as u16, weight as u16, sign, scale as u16];
    for (place, number) in head.iter().chain(shown).enumerate() {
        written[4 + 2 * place..6 + 2 * place].copy_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&written[..4 + size]);
}

fn encoded(head: Vec<u8>, rows: usize, columns: &[Column<'_>]) -> Result<Vec<u8>, (usize, usize)> {
    let mut out = head;
    // A guess; it grows where that is too little.
    out.reserve(rows * (2 + 10 * columns.len()));
    let count = (columns.len() as i16).to_be_bytes();
    for row in 0..rows {
        out.extend_from_slice(&count);
        for (place, column) in columns.iter().enumerate() {
            column.write(row, &mut out).map_err(|Broken| (place, row))?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::decimal;

    fn words(value: i128, scale: u32) -> Vec<i16> {
        let mut out = Vec::new();
        decimal(&mut out, value, scale);
        let bytes = &out[4..];
        assert_eq!(out[..4], (bytes.len() as i32).to_be_bytes());
        bytes
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
