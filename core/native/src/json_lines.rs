//! JSON lines as columns of texts, in the buffers of Arrow's arrays.

use std::collections::HashMap;
use std::fmt;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde::de::{DeserializeSeed, Deserializer as _, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::decode::{Column, Kind, array};

/// The kinds of a column's values, as bits; see `json_rows.py`.
const STRING: u8 = 1;
const NUMBER: u8 = 2;
const BOOLEAN: u8 = 4;
const NESTED: u8 = 8;
/// A string that is a number, which JSON cannot represent.
const NOT_FINITE: u8 = 16;

/// The name of a key, the kinds of its values, and the values, as a `Decoder` gives them.
type Found = (String, u8, Py<PyTuple>);

/// Split lines, each one object, into columns.
///
/// Strings are texts, other values stay as they are written; a null and a missing key are NULL.
///
/// Parameters:
///     block: the lines, each with its line feed.
///     columns: the keys to return; None for all, in the order in which they first appear.
///     nested: for each of these columns, whether strings also stay as they are written.
///
/// Returns:
///     The number of objects, and the columns. None if something is unusual or wrong: a line that
///     is no object, a key that is empty or there twice, half of a surrogate pair, bytes that are
///     not UTF-8, or a nested value in a column that is not nested.
#[pyfunction]
pub fn json_columns(
    py: Python<'_>,
    block: &[u8],
    columns: Option<Vec<String>>,
    nested: Vec<bool>,
) -> PyResult<Option<(usize, Vec<Found>)>> {
    let Some(rows) = py.detach(|| Rows::read(block, columns, &nested)) else {
        return Ok(None);
    };
    let found = rows.columns.into_iter().map(|column| {
        let only_not_finite = column.kinds & (STRING | NOT_FINITE) == NOT_FINITE;
        let kinds = column.kinds & !NOT_FINITE | if only_not_finite { NUMBER } else { 0 };
        Ok((column.name, kinds, array(py, column.texts)?))
    });
    Ok(Some((rows.count, found.collect::<PyResult<_>>()?)))
}

struct Key {
    name: String,
    kinds: u8,
    is_nested: bool,
    texts: Column,
}

struct Rows {
    count: usize,
    columns: Vec<Key>,
    places: HashMap<String, usize>,
    /// Whether other keys are left out.
    is_chosen: bool,
}

impl Rows {
    fn read(block: &[u8], chosen: Option<Vec<String>>, nested: &[bool]) -> Option<Self> {
        let text = std::str::from_utf8(block).ok()?;
        let mut rows = Self {
            count: 0,
            columns: Vec::new(),
            places: HashMap::new(),
            is_chosen: chosen.is_some(),
        };
        for (place, name) in chosen.unwrap_or_default().iter().enumerate() {
            rows.add(name, nested.get(place) == Some(&true));
        }
        for line in text.split_terminator('\n') {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mut parser = serde_json::Deserializer::from_str(line);
            parser.deserialize_map(Row(&mut rows)).ok()?;
            parser.end().ok()?;
            rows.count += 1;
        }
        let count = rows.count;
        rows.columns.iter_mut().for_each(|key| key.fill(count));
        Some(rows)
    }

    fn add(&mut self, name: &str, is_nested: bool) -> usize {
        let place = self.columns.len();
        self.places.insert(name.to_owned(), place);
        self.columns.push(Key {
            name: name.to_owned(),
            kinds: 0,
            is_nested,
            texts: Column::new(&Kind::Text),
        });
        place
    }

    /// The place of a key's column; None if it is left out.
    fn place(&mut self, name: &str, guess: usize) -> Option<usize> {
        // Mostly keys are in the same order in all lines.
        if self.columns.get(guess).is_some_and(|key| key.name == name) {
            return Some(guess);
        }
        match self.places.get(name) {
            Some(&place) => Some(place),
            None if self.is_chosen => None,
            None => Some(self.add(name, false)),
        }
    }
}

impl Key {
    fn fill(&mut self, count: usize) {
        while self.texts.length < count {
            self.texts.push_null();
        }
    }

    /// Add a value of a row; None if it is unusual.
    fn put(&mut self, row: usize, json: &str, string: Option<&str>, is_open: bool) -> Option<()> {
        if self.texts.length > row {
            return None; // the key is there twice
        }
        self.fill(row);
        let (kind, text) = match json.as_bytes()[0] {
            b'n' => {
                self.texts.push_null();
                return Some(());
            }
            b'"' => {
                let text = string?;
                let is_number = matches!(text, "NaN" | "Infinity" | "-Infinity");
                let kind = if is_number { NOT_FINITE } else { STRING };
                (kind, if self.is_nested { json } else { text })
            }
            b'[' | b'{' if is_open || self.is_nested => (NESTED, json),
            b'[' | b'{' => return None,
            b't' | b'f' => (BOOLEAN, json),
            _ => (NUMBER, json),
        };
        self.kinds |= kind;
        self.texts.push(text.as_bytes()).ok()
    }
}

/// Adds the object of a line to some rows.
struct Row<'a>(&'a mut Rows);

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(rows) = self;
        let mut guess = 0;
        while let Some(place) = map.next_key_seed(Place { rows, guess })? {
            let json = map.next_value::<&RawValue>()?.get();
            let unescaped;
            let string = match json
                .strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'))
            {
                // Also of a key that is left out: half of a surrogate pair is an error.
                Some(inner) if inner.contains('\\') => {
                    unescaped = serde_json::from_str::<String>(json).map_err(A::Error::custom)?;
                    Some(unescaped.as_str())
                }
                inner => inner,
            };
            if let Some(place) = place {
                let is_open = !rows.is_chosen;
                rows.columns[place]
                    .put(rows.count, json, string, is_open)
                    .ok_or_else(|| A::Error::custom("unusual"))?;
                guess = place + 1;
            }
        }
        Ok(())
    }
}

/// Finds the column of a key.
struct Place<'a> {
    rows: &'a mut Rows,
    guess: usize,
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Option<usize>;

    fn deserialize<D: serde::Deserializer<'de>>(self, parser: D) -> Result<Self::Value, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for Place<'_> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        if name.is_empty() {
            return Err(E::custom("an empty key"));
        }
        Ok(self.rows.place(name, self.guess))
    }
}
