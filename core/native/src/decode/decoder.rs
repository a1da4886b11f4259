//! A stream of COPY in batches.

use std::ffi::c_int;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::Fault;
use super::column::{Column, Strings, Values};
use super::frame::Bytes;
use super::kind::Kind;
use crate::buffer::Buffer;
use crate::copy_out::{CopyOut, Next};
use crate::libpq::{Connection, Libpq};
use crate::turn::{Figures, Outcome, Waits};

/// Looking at the clock for each would cost more than it is worth.
const ROWS_A_LOOK: usize = 256;

/// Decodes the rows of a binary COPY into batches.
#[pyclass]
pub struct Decoder {
    batches: Batches,
    from: Option<CopyOut>,
    waits: Waits,
    fault: Option<(usize, usize, Fault)>,
}

/// One batch after another, of a stream whose messages are pushed.
pub struct Batches {
    columns: Vec<Column>,
    most_rows: usize,
    most_bytes: usize,
    rows: usize,
    bytes: usize,
    begun: bool,
    ended: bool,
}

#[pymethods]
impl Decoder {
    /// Parameters:
    ///     kinds: of the columns.
    ///     most_rows, most_bytes: of a batch, the latter on the wire; it ends with the row that
    ///         reaches one of them.
    ///
    /// Raises:
    ///     ValueError: there is no such kind.
    #[new]
    fn new(kinds: Vec<String>, most_rows: usize, most_bytes: usize) -> PyResult<Self> {
        let columns = kinds
            .iter()
            .map(|name| match Kind::parse(name) {
                Some(kind) => Ok(Column::new(&kind)),
                None => Err(PyValueError::new_err(format!("no kind {name}"))),
            })
            .collect::<PyResult<_>>()?;
        let batches = Batches::new(columns, most_rows, most_bytes);
        Ok(Self {
            batches,
            from: None,
            waits: Waits::default(),
            fault: None,
        })
    }

    /// Read from a connection.
    ///
    /// Parameters:
    ///     source, unanswered: as for `Pump`.
    #[pyo3(signature = (libpq, source, unanswered=false))]
    fn attach(&mut self, libpq: &Libpq, source: usize, unanswered: bool) {
        let source = Connection(source as *mut _);
        self.from = Some(CopyOut::new(libpq.functions.clone(), source, unanswered));
    }

    /// Read for so long, or until a batch is full. Returns the number of an outcome.
    fn run(&mut self, py: Python<'_>, seconds: f64, watched: c_int) -> u8 {
        self.waits.begin_turn(seconds);
        py.detach(|| self.turn(watched)) as u8
    }

    /// Take a message, or several, of a stream that comes from elsewhere.
    fn feed(&mut self, py: Python<'_>, message: &[u8]) -> u8 {
        py.detach(|| {
            let pushed = self.batches.push(message);
            match self.outcome(pushed) {
                Outcome::More if self.batches.ended => self.finished(),
                Outcome::Ready => self.finished(),
                outcome => outcome,
            }
        }) as u8
    }

    /// The batch that is there: its rows, their bytes on the wire, and an array for each column.
    fn take(&mut self, py: Python<'_>) -> PyResult<(usize, usize, Vec<Py<PyTuple>>)> {
        let (rows, bytes, columns) = self.batches.take();
        let arrays = columns.into_iter().map(|column| array(py, column));
        Ok((rows, bytes, arrays.collect::<PyResult<_>>()?))
    }

    /// Whether all batches were taken, once there is nothing more to read.
    #[getter]
    fn ended(&self) -> bool {
        self.batches.ended && self.batches.rows == 0
    }

    /// Why it is refused: the column, the row of the batch, what is wrong, and the bytes.
    #[getter]
    fn fault(&self) -> Option<(usize, usize, &'static str, Vec<u8>)> {
        let (column, row, fault) = self.fault.as_ref()?;
        let (kind, detail) = match fault {
            Fault::Value(bytes) => ("value", bytes.clone()),
            Fault::Dimensions(count) => ("dimensions", count.to_string().into_bytes()),
            Fault::Form(what) => ("form", what.as_bytes().to_vec()),
        };
        Some((*column, *row, kind, detail))
    }

    /// See `Pump`.
    #[getter]
    fn waits(&self) -> Figures {
        self.waits.figures()
    }
}

impl Decoder {
    fn turn(&mut self, watched: c_int) -> Outcome {
        for read in 1_usize.. {
            let Some(from) = &mut self.from else {
                return Outcome::SourceFailed;
            };
            match from.next(&mut self.waits, watched) {
                Next::Row => {
                    let pushed = self.batches.push(from.row());
                    if pushed == Ok(true) {
                        from.release();
                    }
                    let outcome = self.outcome(pushed);
                    if outcome == Outcome::Ready {
                        return self.finished();
                    }
                    if outcome != Outcome::More {
                        return outcome;
                    }
                }
                Next::Ended => {
                    self.batches.ended = true;
                    return self.finished();
                }
                Next::Out(outcome) => return outcome,
            }
            if read.is_multiple_of(ROWS_A_LOOK) && self.waits.is_over() {
                return Outcome::More;
            }
        }
        Outcome::More
    }

    fn outcome(&mut self, pushed: Result<bool, (usize, Fault)>) -> Outcome {
        match pushed {
            Ok(full) if full => Outcome::Ready,
            Ok(_) => Outcome::More,
            Err((column, fault)) => self.refused(column, self.batches.rows, fault),
        }
    }

    /// Look at what can be looked at for a whole batch at once.
    fn finished(&mut self) -> Outcome {
        for (place, column) in self.batches.columns.iter().enumerate() {
            if let Some((row, bytes)) = column.first_bad_text() {
                return self.refused(place, row, Fault::Value(bytes));
            }
        }
        Outcome::Ready
    }

    fn refused(&mut self, column: usize, row: usize, fault: Fault) -> Outcome {
        self.fault = Some((column, row, fault));
        Outcome::Refused
    }
}

impl Batches {
    pub fn new(columns: Vec<Column>, most_rows: usize, most_bytes: usize) -> Self {
        let (rows, bytes, begun, ended) = (0, 0, false, false);
        Self {
            columns,
            most_rows,
            most_bytes,
            rows,
            bytes,
            begun,
            ended,
        }
    }

    /// Take a message; a server sends whole rows. True where the batch is full.
    pub fn push(&mut self, message: &[u8]) -> Result<bool, (usize, Fault)> {
        let mut bytes = Bytes::new(message);
        if !self.begun {
            bytes.header().map_err(|fault| (0, fault))?;
            self.begun = true;
        }
        while !bytes.is_empty() {
            let fields = bytes.int16().map_err(|fault| (0, fault))?;
            if fields == -1 {
                self.ended = true;
                break;
            }
            if usize::try_from(fields) != Ok(self.columns.len()) {
                return Err((0, Fault::Form("a row with another number of columns")));
            }
            for (place, column) in self.columns.iter_mut().enumerate() {
                match bytes.value() {
                    Ok(Some(value)) => column.push(value),
                    Ok(None) => {
                        column.push_null();
                        Ok(())
                    }
                    Err(fault) => Err(fault),
                }
                .map_err(|fault| (place, fault))?;
            }
            self.rows += 1;
        }
        self.bytes += message.len();
        Ok(self.rows >= self.most_rows || self.bytes >= self.most_bytes)
    }

    pub fn take(&mut self) -> (usize, usize, Vec<Column>) {
        let new = self.columns.iter().map(Column::like).collect();
        let taken = (
            self.rows,
            self.bytes,
            std::mem::replace(&mut self.columns, new),
        );
        (self.rows, self.bytes) = (0, 0);
        taken
    }
}

/// What Python makes an array of: its length, the number of NULLs, the buffer that tells them, the
/// other buffers, and the arrays within it.
pub fn array(py: Python<'_>, column: Column) -> PyResult<Py<PyTuple>> {
    let valid = (column.nulls > 0).then(|| Buffer::new(column.valid.bytes));
    let mut inner = Vec::new();
    let buffers = match column.values {
        Values::Bits(bits) => vec![Buffer::new(bits.bytes)],
        Values::Int16(values) => vec![Buffer::new(values)],
        Values::Int32(values) => vec![Buffer::new(values)],
        Values::Int64(values) => vec![Buffer::new(values)],
        Values::UInt32(values) => vec![Buffer::new(values)],
        Values::Float32(values) => vec![Buffer::new(values)],
        Values::Float64(values) => vec![Buffer::new(values)],
        Values::Uuid(values) => vec![Buffer::new(values)],
        Values::Narrow(values) => vec![Buffer::new(values)],
        Values::Wide(values) => vec![Buffer::new(values)],
        Values::Strings(strings) => strings_of(strings),
        Values::Labels { places, labels, .. } => {
            inner.push(array(py, Column::of_texts(labels))?);
            vec![Buffer::new(places)]
        }
        Values::List {
            offsets,
            inner: values,
        } => {
            inner.push(array(py, *values)?);
            vec![Buffer::new(offsets)]
        }
    };
    let made = (column.length, column.nulls, valid, buffers, inner).into_pyobject(py)?;
    Ok(made.unbind())
}

fn strings_of(strings: Strings) -> Vec<Buffer> {
    vec![Buffer::new(strings.offsets), Buffer::new(strings.bytes)]
}
