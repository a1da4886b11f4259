//! The values of one column of a batch, as Arrow has them.

use std::collections::HashMap;

use super::Fault;
use super::decimal::{Wide, limit, narrow, wide};
use super::frame::{Bytes, fixed};
use super::kind::Kind;

/// From 1970-01-01, where Arrow begins to count, to 2000-01-01, where the server does.
const DAYS: i32 = 10_957;
const MICROSECONDS: i64 = DAYS as i64 * DAY;
const DAY: i64 = 86_400_000_000;
/// Of bytes: a large value is none of many.
const MOST_RESERVED: usize = 1 << 20;
/// Arrays have no more dimensions.
const MOST_DIMENSIONS: i32 = 6;

/// Bits, as Arrow packs them.
#[derive(Default)]
pub struct Bits {
    pub bytes: Vec<u8>,
    pub length: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.length.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if bit && let Some(last) = self.bytes.last_mut() {
            *last |= 1 << (self.length % 8);
        }
        self.length += 1;
    }
}

/// Texts or bytes, one after the other.
pub struct Strings {
    pub offsets: Vec<i32>,
    pub bytes: Vec<u8>,
}

impl Strings {
    fn new() -> Self {
        Self {
            offsets: vec![0],
            bytes: Vec::new(),
        }
    }

    fn push(&mut self, value: &[u8]) -> Result<(), Fault> {
        self.bytes.extend_from_slice(value);
        let end = i32::try_from(self.bytes.len())
            .map_err(|_| Fault::Form("more than 2 GB of one column in a batch"))?;
        self.offsets.push(end);
        Ok(())
    }

    fn get(&self, place: usize) -> &[u8] {
        &self.bytes[self.offsets[place] as usize..self.offsets[place + 1] as usize]
    }

    /// The first that is no text in UTF-8.
    fn first_bad(&self) -> Option<usize> {
        let fine = std::str::from_utf8(&self.bytes).is_ok_and(|all| {
            all.is_ascii()
                || self
                    .offsets
                    .iter()
                    .all(|&end| all.is_char_boundary(end as usize))
        });
        if fine {
            return None;
        }
        (0..self.offsets.len() - 1).find(|&place| std::str::from_utf8(self.get(place)).is_err())
    }
}

pub enum Values {
    Bits(Bits),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    UInt32(Vec<u32>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Uuid(Vec<[u8; 16]>),
    Narrow(Vec<i128>),
    Wide(Vec<Wide>),
    Strings(Strings),
    Labels {
        places: Vec<i32>,
        labels: Strings,
        known: HashMap<Vec<u8>, i32>,
    },
    List {
        offsets: Vec<i32>,
        inner: Box<Column>,
    },
}

pub struct Column {
    kind: Kind,
    limit: Wide,
    pub length: usize,
    pub nulls: usize,
    /// Empty as long as there is no NULL.
    pub valid: Bits,
    pub values: Values,
}

impl Column {
    pub fn new(kind: &Kind) -> Self {
        let values = match kind {
            Kind::Bool => Values::Bits(Bits::default()),
            Kind::Int16 => Values::Int16(Vec::new()),
            Kind::Int32 | Kind::Date => Values::Int32(Vec::new()),
            Kind::Int64 | Kind::Time | Kind::Timestamp => Values::Int64(Vec::new()),
            Kind::UInt32 => Values::UInt32(Vec::new()),
            Kind::Float32 => Values::Float32(Vec::new()),
            Kind::Float64 => Values::Float64(Vec::new()),
            Kind::Uuid => Values::Uuid(Vec::new()),
            Kind::Bytes | Kind::Text | Kind::Trimmed | Kind::Jsonb => {
                Values::Strings(Strings::new())
            }
            Kind::Labels => Values::Labels {
                places: Vec::new(),
                labels: Strings::new(),
                known: HashMap::new(),
            },
            Kind::Decimal {
                precision: ..=38, ..
            } => Values::Narrow(Vec::new()),
            Kind::Decimal { .. } => Values::Wide(Vec::new()),
            Kind::List(inner) => Values::List {
                offsets: vec![0],
                inner: Box::new(Column::new(inner)),
            },
        };
        let limit = match kind {
            Kind::Decimal { precision, .. } => limit(*precision),
            _ => [0; 4],
        };
        let (length, nulls) = (0, 0);
        Self {
            kind: kind.clone(),
            limit,
            length,
            nulls,
            valid: Bits::default(),
            values,
        }
    }

    pub fn of_texts(texts: Strings) -> Self {
        let (length, values) = (texts.offsets.len() - 1, Values::Strings(texts));
        Self {
            length,
            values,
            ..Self::new(&Kind::Text)
        }
    }

    /// An empty one of the same kind, with room for about as much.
    pub fn like(&self) -> Self {
        let mut new = Self::new(&self.kind);
        match (&self.values, &mut new.values) {
            (Values::Int16(old), Values::Int16(new)) => new.reserve(old.len()),
            (Values::Int32(old), Values::Int32(new)) => new.reserve(old.len()),
            (Values::Int64(old), Values::Int64(new)) => new.reserve(old.len()),
            (Values::UInt32(old), Values::UInt32(new)) => new.reserve(old.len()),
            (Values::Float32(old), Values::Float32(new)) => new.reserve(old.len()),
            (Values::Float64(old), Values::Float64(new)) => new.reserve(old.len()),
            (Values::Uuid(old), Values::Uuid(new)) => new.reserve(old.len()),
            (Values::Narrow(old), Values::Narrow(new)) => new.reserve(old.len()),
            (Values::Wide(old), Values::Wide(new)) => new.reserve(old.len()),
            (Values::Strings(old), Values::Strings(new)) => {
                new.offsets.reserve(old.offsets.len());
                new.bytes.reserve(old.bytes.len().min(MOST_RESERVED));
            }
            (Values::Labels { places: old, .. }, Values::Labels { places: new, .. }) => {
                new.reserve(old.len());
            }
            _ => {}
        }
        new
    }

    fn mark(&mut self, valid: bool) {
        if !valid {
            if self.nulls == 0 {
                self.valid.bytes = vec![0xff; self.length / 8];
                self.valid.length = self.length / 8 * 8;
                for _ in 0..self.length % 8 {
                    self.valid.push(true);
                }
            }
            self.nulls += 1;
        }
        if self.nulls > 0 {
            self.valid.push(valid);
        }
        self.length += 1;
    }

    pub fn push_null(&mut self) {
        self.mark(false);
        match &mut self.values {
            Values::Bits(bits) => bits.push(false),
            Values::Int16(values) => values.push(0),
            Values::Int32(values) => values.push(0),
            Values::Int64(values) => values.push(0),
            Values::UInt32(values) => values.push(0),
            Values::Float32(values) => values.push(0.0),
            Values::Float64(values) => values.push(0.0),
            Values::Uuid(values) => values.push([0; 16]),
            Values::Narrow(values) => values.push(0),
            Values::Wide(values) => values.push([0; 4]),
            Values::Strings(Strings { offsets, .. }) | Values::List { offsets, .. } => {
                let end = offsets[offsets.len() - 1];
                offsets.push(end);
            }
            Values::Labels { places, .. } => places.push(0),
        }
    }

    /// A value as the server sends it.
    pub fn push(&mut self, value: &[u8]) -> Result<(), Fault> {
        let refused = || Fault::Value(value.to_vec());
        match (&mut self.values, &self.kind) {
            (Values::Bits(bits), _) => bits.push(fixed::<1>(value)?[0] != 0),
            (Values::Int16(values), _) => values.push(i16::from_be_bytes(fixed(value)?)),
            (Values::Int32(values), Kind::Date) => {
                let day = i32::from_be_bytes(fixed(value)?);
                let finite = day != i32::MIN && day != i32::MAX;
                let moved = day.checked_add(DAYS).filter(|_| finite);
                values.push(moved.ok_or_else(refused)?);
            }
            (Values::Int32(values), _) => values.push(i32::from_be_bytes(fixed(value)?)),
            (Values::Int64(values), Kind::Timestamp) => {
                let moment = i64::from_be_bytes(fixed(value)?);
                let finite = moment != i64::MIN && moment != i64::MAX;
                let moved = moment.checked_add(MICROSECONDS).filter(|_| finite);
                values.push(moved.ok_or_else(refused)?);
            }
            (Values::Int64(values), Kind::Time) => {
                let moment = i64::from_be_bytes(fixed(value)?);
                if !(0..DAY).contains(&moment) {
                    return Err(refused());
                }
                values.push(moment);
            }
            (Values::Int64(values), _) => values.push(i64::from_be_bytes(fixed(value)?)),
            (Values::UInt32(values), _) => values.push(u32::from_be_bytes(fixed(value)?)),
            (Values::Float32(values), _) => values.push(f32::from_be_bytes(fixed(value)?)),
            (Values::Float64(values), _) => values.push(f64::from_be_bytes(fixed(value)?)),
            (Values::Uuid(values), _) => values.push(fixed(value)?),
            (Values::Narrow(values), Kind::Decimal { scale, .. }) => {
                values.push(narrow(value, *scale, &self.limit)?.ok_or_else(refused)?);
            }
            (Values::Wide(values), Kind::Decimal { scale, .. }) => {
                values.push(wide(value, *scale, &self.limit)?.ok_or_else(refused)?);
            }
            (Values::Strings(strings), Kind::Trimmed) => strings.push(trimmed(value))?,
            (Values::Strings(strings), Kind::Jsonb) => match value.split_first() {
                Some((1, text)) => strings.push(text)?,
                _ => return Err(Fault::Form("a jsonb of another version than 1")),
            },
            (Values::Strings(strings), _) => strings.push(value)?,
            (
                Values::Labels {
                    places,
                    labels,
                    known,
                },
                _,
            ) => {
                let place = match known.get(value) {
                    Some(place) => *place,
                    None => {
                        let place = known.len() as i32;
                        labels.push(value)?;
                        known.insert(value.to_vec(), place);
                        place
                    }
                };
                places.push(place);
            }
            (Values::List { .. }, _) => return self.push_array(value),
            (Values::Narrow(_) | Values::Wide(_), _) => {
                return Err(Fault::Form("a decimal of no kind"));
            }
        }
        self.mark(true);
        Ok(())
    }

    /// An array: how many dimensions, whether there are NULLs, the type of its elements; of each
    /// dimension its length and lower bound; then the elements. See `array_send` in arrayfuncs.c.
    fn push_array(&mut self, value: &[u8]) -> Result<(), Fault> {
        let mut bytes = Bytes::new(value);
        let dimensions = bytes.int32()?;
        bytes.take(8)?;
        if !(0..=MOST_DIMENSIONS).contains(&dimensions) {
            return Err(Fault::Form(
                "an array with more dimensions than arrays have",
            ));
        }
        let mut lengths = Vec::with_capacity(dimensions as usize);
        for _ in 0..dimensions {
            let length = usize::try_from(bytes.int32()?).unwrap_or(0);
            bytes.take(4)?;
            lengths.push(length);
        }
        // Of an empty array no dimension is sent; and each element takes four bytes at least.
        let elements = lengths
            .iter()
            .try_fold(1_usize, |all, &length| all.checked_mul(length));
        if elements.is_none_or(|count| count == 0 || count > value.len() / 4) {
            return Err(Fault::Form(
                "an array with other dimensions than its elements have",
            ));
        }
        if lengths.is_empty() {
            lengths.push(0);
        } else if lengths.len() != self.depth() {
            return Err(Fault::Dimensions(dimensions));
        }
        self.push_elements(&lengths, &mut bytes)?;
        if bytes.is_empty() {
            Ok(())
        } else {
            Err(Fault::Form("an array that is too long"))
        }
    }

    fn push_elements(&mut self, lengths: &[usize], bytes: &mut Bytes<'_>) -> Result<(), Fault> {
        let Values::List { offsets, inner } = &mut self.values else {
            return match bytes.value()? {
                Some(value) => self.push(value),
                None => {
                    self.push_null();
                    Ok(())
                }
            };
        };
        let (first, rest) = match lengths.split_first() {
            Some((first, rest)) => (*first, rest),
            None => return Err(Fault::Form("an array within an array")),
        };
        for _ in 0..first {
            inner.push_elements(rest, bytes)?;
        }
        let end = i32::try_from(inner.length)
            .map_err(|_| Fault::Form("more than 2,147,483,647 elements in a batch"))?;
        offsets.push(end);
        self.mark(true);
        Ok(())
    }

    fn depth(&self) -> usize {
        match &self.values {
            Values::List { inner, .. } => 1 + inner.depth(),
            _ => 0,
        }
    }

    /// The first row that holds bytes which are no text, and these bytes.
    pub fn first_bad_text(&self) -> Option<(usize, Vec<u8>)> {
        match (&self.values, &self.kind) {
            (Values::Strings(_), Kind::Bytes) => None,
            (Values::Strings(strings), _) => {
                let place = strings.first_bad()?;
                Some((place, strings.get(place).to_vec()))
            }
            (Values::Labels { places, labels, .. }, _) => {
                let label = labels.first_bad()?;
                let place = places.iter().position(|&place| place as usize == label)?;
                Some((place, labels.get(label).to_vec()))
            }
            (Values::List { offsets, inner }, _) => {
                let (element, bytes) = inner.first_bad_text()?;
                // The list that begins last at the element or before has it.
                Some((
                    offsets.partition_point(|&start| start as usize <= element) - 1,
                    bytes,
                ))
            }
            _ => None,
        }
    }
}

fn trimmed(value: &[u8]) -> &[u8] {
    let end = value
        .iter()
        .rposition(|&byte| byte != b' ')
        .map_or(0, |place| place + 1);
    &value[..end]
}
