//! From one server's COPY TO STDOUT into another one's COPY FROM STDIN.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::copy_out::{CopyOut, Next};
use crate::libpq::{Connection, Functions, Libpq, Message};
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
    functions: Arc<Functions>,
    from: CopyOut,
    into: Connection,
    gathered: Vec<u8>,
    /// A large row, and how much of it is handed on.
    large: Option<(Message, usize)>,
    sending: bool,
    writes: u32,
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
    ///         COPY, and non-blocking.
    #[new]
    fn new(libpq: &Libpq, source: usize, target: usize) -> Self {
        let functions = libpq.functions.clone();
        Self {
            from: CopyOut::new(functions.clone(), Connection(source as *mut _)),
            functions,
            into: Connection(target as *mut _),
            gathered: Vec::with_capacity(2 * GATHER),
            large: None,
            sending: false,
            writes: 0,
            waits: Waits::default(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Move rows for so long. Returns the number of an outcome.
    #[pyo3(signature = (seconds, _watched=-1))]
    fn run(&mut self, py: Python<'_>, seconds: f64, _watched: i32) -> u8 {
        self.waits.begin_turn(seconds);
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
            if self.writes >= WRITES_A_LOOK {
                self.writes = 0;
                if self.waits.is_over() {
                    return Outcome::More;
                }
            }
            if let Some((row, handed)) = &mut self.large {
                if is_readable(self.functions.socket(self.into)) {
                    return Outcome::Spoke;
                }
                let rest = &row.bytes()[*handed..];
                let piece = &rest[..rest.len().min(PIECE)];
                *handed += piece.len();
                let last = piece.len() == rest.len();
                let fine = self.functions.put(self.into, piece);
                if last {
                    self.large = None;
                }
                if !self.handed_on(fine) {
                    return Outcome::TargetFailed;
                }
                continue;
            }
            match self.gather() {
                Ok(ended) => {
                    if self.gathered.is_empty() && self.large.is_none() && ended {
                        return Outcome::Ready;
                    }
                    if self.gathered.is_empty() {
                        continue;
                    }
                    if is_readable(self.functions.socket(self.into)) {
                        return Outcome::Spoke;
                    }
                    let fine = self.functions.put(self.into, &self.gathered);
                    self.gathered.clear();
                    if !self.handed_on(fine) {
                        return Outcome::TargetFailed;
                    }
                }
                Err(outcome) => return outcome,
            }
        }
    }

    fn handed_on(&mut self, fine: bool) -> bool {
        self.sending = true;
        self.writes += 1;
        fine
    }

    /// Take rows until there is enough for a write. True at the end of the stream.
    fn gather(&mut self) -> Result<bool, Outcome> {
        let watched = self.functions.socket(self.into);
        while self.gathered.len() < GATHER {
            match self.from.next(&mut self.waits, watched) {
                Next::Message(message) => {
                    self.rows += 1;
                    self.bytes += message.bytes().len() as u64;
                    if message.bytes().len() > PIECE {
                        self.large = Some((message, 0));
                        return Ok(false);
                    }
                    self.gathered.extend_from_slice(message.bytes());
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
            match self.functions.flush(self.into) {
                Some(true) => self.sending = false,
                Some(false) => {
                    let socket = self.functions.socket(self.into);
                    match self.waits.wait(Side::Target, socket, true, -1) {
                        Woken::Ready => {}
                        Woken::Watched => return Some(Outcome::Spoke),
                        Woken::Over => return Some(Outcome::More),
                    }
                }
                None => return Some(Outcome::TargetFailed),
            }
        }
        None
    }
}
