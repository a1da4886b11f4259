//! From one server's COPY TO STDOUT into another one's COPY FROM STDIN.

use pyo3::prelude::*;

use crate::copy_in::{CopyIn, HEAD};
use crate::copy_out::{CopyOut, Next};
use crate::libpq::{Connection, Libpq};
use crate::turn::{Figures, Outcome, Side, Waits, Woken, is_readable};

/// A message holds one row; gathered, they cost one call and one message a write. Larger gains
/// nothing (measured).
const GATHER: usize = 128 * 1024;
/// libpq copies what it is given: a large row is handed to it in pieces.
const PIECE: usize = 256 * 1024;
/// Looking at the clock for each would cost more than it is worth.
const WRITES_A_LOOK: u32 = 16;

/// Moves rows between two connections of psycopg's, of the same form on both sides.
///
/// Between its turns the connections are psycopg's to use. They stay open as long as this is used.
#[pyclass]
pub struct Pump {
    from: CopyOut,
    into: CopyIn,
    /// Rows, after the room for a message's head.
    gathered: Vec<u8>,
    /// How much of a large row is handed on.
    large: Option<usize>,
    sending: bool,
    broken: bool,
    writes: u32,
    /// How many bytes there may be at the end of the turn, roughly; and how many a write may have.
    most: u64,
    gather: usize,
    waits: Waits,
    /// Messages: one for each row, and those that frame them.
    #[pyo3(get)]
    rows: u64,
    #[pyo3(get)]
    bytes: u64,
}

#[pymethods]
impl Pump {
    /// Parameters:
    ///     source, target: `PGconn*` as numbers, `psycopg.pq.PGconn.pgconn_ptr`; in the midst of
    ///         COPY, and non-blocking. They stay open as long as this is used.
    ///     unanswered: libpq has sent the source's COPY, and has read nothing since. Where the
    ///         connection `is_plain`, that is the faster way.
    #[new]
    #[pyo3(signature = (libpq, source, target, unanswered=false))]
    fn new(libpq: &Libpq, source: usize, target: usize, unanswered: bool) -> Self {
        let functions = &libpq.functions;
        let (source, target) = (Connection(source as *mut _), Connection(target as *mut _));
        let mut gathered = Vec::with_capacity(HEAD + GATHER + PIECE);
        gathered.resize(HEAD, 0);
        Self {
            from: CopyOut::new(functions.clone(), source, unanswered),
            into: CopyIn::new(functions.clone(), target),
            gathered,
            large: None,
            sending: false,
            broken: false,
            writes: 0,
            most: u64::MAX,
            gather: GATHER,
            waits: Waits::default(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Move rows for so long, and not many more than so many bytes. Returns the number of an outcome.
    #[pyo3(signature = (seconds, _watched=-1, most=None))]
    fn run(&mut self, py: Python<'_>, seconds: f64, _watched: i32, most: Option<u64>) -> u8 {
        self.waits.begin_turn(seconds);
        self.most = most.map_or(u64::MAX, |bytes| self.bytes.saturating_add(bytes));
        self.gather = most.map_or(GATHER, |bytes| GATHER.min(bytes as usize));
        py.detach(|| self.turn()) as u8
    }

    /// Seconds spent waiting for the source and for the target; for how many nothing has moved now; and
    /// the side that it waits for, or has waited for last.
    #[getter]
    fn waits(&self) -> Figures {
        self.waits.figures()
    }
}

impl Pump {
    fn turn(&mut self) -> Outcome {
        loop {
            if let Some(outcome) = self.send() {
                return outcome;
            }
            if self.bytes >= self.most {
                return Outcome::More;
            }
            if self.writes >= WRITES_A_LOOK {
                self.writes = 0;
                if self.waits.is_over() {
                    return Outcome::More;
                }
            }
            let ended = match self.gather() {
                Ok(ended) => ended,
                Err(outcome) => return outcome,
            };
            if self.gathered.len() == HEAD {
                if ended {
                    return Outcome::Ready;
                }
                continue;
            }
            if is_readable(self.into.fd()) {
                return Outcome::Spoke;
            }
            if !self.into.put(&mut self.gathered) {
                return Outcome::TargetFailed;
            }
            self.sending = true;
            self.writes += 1;
        }
    }

    /// Take rows until there is enough for a write. True at the end of the stream.
    fn gather(&mut self) -> Result<bool, Outcome> {
        while self.gathered.len() < HEAD + self.gather {
            if let Some(handed) = &mut self.large {
                let rest = &self.from.row()[*handed..];
                let piece = &rest[..rest.len().min(PIECE)];
                self.gathered.extend_from_slice(piece);
                *handed += piece.len();
                if piece.len() == rest.len() {
                    self.large = None;
                }
                continue;
            }
            match self.from.next(&mut self.waits, self.into.fd()) {
                Next::Row => {
                    let row = self.from.row();
                    self.rows += 1;
                    self.bytes += row.len() as u64;
                    if row.len() > PIECE {
                        self.large = Some(0);
                    } else {
                        self.gathered.extend_from_slice(row);
                    }
                }
                Next::Ended => return Ok(true),
                Next::Out(outcome) => return Err(outcome),
            }
        }
        Ok(false)
    }

    /// See to it that what was handed on is sent; an outcome where the turn ends before.
    ///
    /// What the target says meanwhile is not read here: it may be an error, and libpq does not say
    /// what it has read before the stream has ended. Nor may it stay unread, as notices would fill
    /// the way back until the target waits as well.
    fn send(&mut self) -> Option<Outcome> {
        while self.sending {
            match self.into.flush() {
                Some(true) => self.sending = false,
                Some(false) => {
                    let socket = self.into.fd();
                    match self.waits.wait(Side::Target, socket, true, -1) {
                        Woken::Ready => {}
                        Woken::Watched => return Some(Outcome::Spoke),
                        Woken::Over => return Some(Outcome::More),
                    }
                }
                // Whoever reads from it finds out why, if the server has said so.
                None if !self.broken && is_readable(self.into.fd()) => {
                    self.broken = true;
                    return Some(Outcome::Spoke);
                }
                None => return Some(Outcome::TargetFailed),
            }
        }
        None
    }
}
