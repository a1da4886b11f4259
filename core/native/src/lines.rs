//! The text forms of COPY, as lines that other systems take as they are; see `api/worker.py`.

use std::ffi::c_int;

use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::copy_out::{CopyOut, Next};
use crate::libpq::{Connection, Libpq};
use crate::turn::{Figures, Outcome, Waits};

/// Bytes in a block. Larger gains nothing (measured).
const GATHER: usize = 128 * 1024;
const MOST_ROWS: usize = 1 << 16;

/// Gathers the lines of a COPY in blocks.
#[pyclass]
pub struct Lines {
    from: CopyOut,
    verbatim: bool,
    trimmed: Vec<bool>,
    waits: Waits,
    block: Vec<u8>,
    rows: usize,
    ended: bool,
}

#[pymethods]
impl Lines {
    /// Parameters:
    ///     source, unanswered: as for `Pump`.
    ///     verbatim: whether lines stay as they are, as those of CSV, which has no escapes.
    ///     trimmed: for each column whether its values lose the blanks at their end; it may be
    ///         shorter than a line.
    #[new]
    #[pyo3(signature = (libpq, source, unanswered=false, verbatim=false, trimmed=Vec::new()))]
    fn new(
        libpq: &Libpq,
        source: usize,
        unanswered: bool,
        verbatim: bool,
        trimmed: Vec<bool>,
    ) -> Self {
        let source = Connection(source as *mut _);
        Self {
            from: CopyOut::new(libpq.functions.clone(), source, unanswered),
            verbatim,
            trimmed,
            waits: Waits::default(),
            block: Vec::new(),
            rows: 0,
            ended: false,
        }
    }

    /// Read for so long, or until a block is full. Returns the number of an outcome.
    fn run(&mut self, py: Python<'_>, seconds: f64, watched: c_int) -> u8 {
        self.waits.begin_turn(seconds);
        py.detach(|| self.turn(watched)) as u8
    }

    /// The block that is there, and its rows.
    fn take(&mut self) -> (usize, Buffer) {
        let room = self.block.len().min(2 * GATHER);
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(room));
        (std::mem::take(&mut self.rows), Buffer::new(block))
    }

    /// Whether all blocks were taken, once there is nothing more to read.
    #[getter]
    fn ended(&self) -> bool {
        self.ended && self.rows == 0
    }

    /// See `Pump`.
    #[getter]
    fn waits(&self) -> Figures {
        self.waits.figures()
    }
}

impl Lines {
    fn turn(&mut self, watched: c_int) -> Outcome {
        while self.block.len() < GATHER && self.rows < MOST_ROWS {
            match self.from.next(&mut self.waits, watched) {
                Next::Row => {
                    if self.verbatim {
                        self.block.extend_from_slice(self.from.row());
                    } else {
                        push_line(&mut self.block, self.from.row(), &self.trimmed);
                    }
                    self.rows += 1;
                }
                Next::Ended => {
                    self.ended = true;
                    return Outcome::Ready;
                }
                Next::Out(outcome) => return outcome,
            }
        }
        Outcome::Ready
    }
}

/// Add a line, in which two characters are not written by a letter, as only COPY writes them, and
/// some columns end without blanks, which are never escaped.
fn push_line(block: &mut Vec<u8>, line: &[u8], trimmed: &[bool]) {
    let columns = trimmed
        .iter()
        .rposition(|&is| is)
        .map_or(0, |last| last + 1);
    let next = |rest: &[u8], column: usize| {
        let mut bytes = rest.iter();
        if column < columns {
            bytes.position(|&byte| matches!(byte, b'\\' | b'\t' | b'\n'))
        } else {
            bytes.position(|&byte| byte == b'\\')
        }
    };
    let mut rest = line;
    let mut column = 0;
    while let Some(place) = next(rest, column) {
        if rest[place] != b'\\' {
            let mut value = &rest[..place];
            if trimmed[column] {
                while let Some(shorter) = value.strip_suffix(b" ") {
                    value = shorter;
                }
            }
            block.extend_from_slice(value);
            block.push(rest[place]);
            rest = &rest[place + 1..];
            column += 1;
            continue;
        }
        let Some(&letter) = rest.get(place + 1) else {
            break;
        };
        let plain = match letter {
            b'f' => Some(0x0c),
            b'v' => Some(0x0b),
            _ => None,
        };
        match plain {
            Some(byte) => {
                block.extend_from_slice(&rest[..place]);
                block.push(byte);
            }
            None => block.extend_from_slice(&rest[..place + 2]),
        }
        rest = &rest[place + 2..];
    }
    block.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::push_line;

    #[test]
    fn two_letters_become_characters() {
        for (line, expected) in [
            (&b"a\\fb\\v\tc\n"[..], &b"a\x0cb\x0b\tc\n"[..]),
            (b"\\\\f\\\\\\f\n", b"\\\\f\\\\\x0c\n"),
            (b"\\N\t\\t\\n\n", b"\\N\t\\t\\n\n"),
            (b"plain\n", b"plain\n"),
            (b"", b""),
        ] {
            let mut block = Vec::new();
            push_line(&mut block, line, &[]);
            assert_eq!(block, expected);
        }
    }

    #[test]
    fn blanks_at_the_end_of_some_columns_are_left_out() {
        let trimmed = [false, true, true];
        for (line, expected) in [
            (&b"a \tb  \tc \td \n"[..], &b"a \tb\tc\td \n"[..]),
            (b"a\t  \t \n", b"a\t\t\n"),
            (b"\\N\t\\N\t\\N\n", b"\\N\t\\N\t\\N\n"),
            (b" \t a\\f \t\\\\ \n", b" \t a\x0c\t\\\\\n"),
            (b" \tb\\t \t c\n", b" \tb\\t\t c\n"),
            (b"a \t\t\n", b"a \t\t\n"),
            (b"a \n", b"a \n"),
        ] {
            let mut block = b"before ".to_vec();
            push_line(&mut block, line, &trimmed);
            assert_eq!(&block[..7], b"before ");
            assert_eq!(&block[7..], expected);
        }
    }
}
