//! The kinds of values: how a server sends them, and what Arrow has for them.

/// By the name that Python has for it; see `wire.py`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int16,
    Int32,
    Int64,
    UInt32,
    Float32,
    Float64,
    /// Days since 2000-01-01.
    Date,
    /// Microseconds of a day.
    Time,
    /// Microseconds since 2000-01-01.
    Timestamp,
    Uuid,
    Bytes,
    Text,
    /// A character(n): without the blanks at its end.
    Trimmed,
    /// A jsonb: text after a byte for the version.
    Jsonb,
    /// Texts of which there are few.
    Labels,
    Decimal {
        precision: u32,
        scale: u32,
    },
    List(Box<Kind>),
}

impl Kind {
    /// None where there is no such name.
    pub fn parse(name: &str) -> Option<Kind> {
        if let Some(inner) = name.strip_prefix("list:") {
            return Some(Kind::List(Box::new(Kind::parse(inner)?)));
        }
        if let Some(numbers) = name.strip_prefix("decimal:") {
            let (precision, scale) = numbers.split_once(':')?;
            let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
            let known = (1..=76).contains(&precision) && scale <= precision;
            return known.then_some(Kind::Decimal { precision, scale });
        }
        Some(match name {
            "bool" => Kind::Bool,
            "int16" => Kind::Int16,
            "int32" => Kind::Int32,
            "int64" => Kind::Int64,
            "uint32" => Kind::UInt32,
            "float32" => Kind::Float32,
            "float64" => Kind::Float64,
            "date" => Kind::Date,
            "time" => Kind::Time,
            "timestamp" => Kind::Timestamp,
            "uuid" => Kind::Uuid,
            "bytes" => Kind::Bytes,
            "text" => Kind::Text,
            "trimmed" => Kind::Trimmed,
            "jsonb" => Kind::Jsonb,
            "labels" => Kind::Labels,
            _ => return None,
        })
    }
}
