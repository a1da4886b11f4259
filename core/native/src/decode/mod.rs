//! The binary form of COPY, decoded into the buffers of Arrow's arrays.
//!
//! The form: <https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT>.
//! The buffers: <https://arrow.apache.org/docs/format/Columnar.html>.

mod column;
mod decimal;
mod decoder;
mod frame;
mod kind;

pub use column::Column;
pub use decoder::{Decoder, array};
pub use kind::Kind;

/// Why a value, or the stream, cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// Arrow's type does not hold the value: the bytes of it, or of an element.
    Value(Vec<u8>),
    /// An array of another depth than its column's type has.
    Dimensions(i32),
    /// Not what the server's documentation says.
    Form(&'static str),
}
