//! The rows of a COPY TO STDOUT, message by message.

use std::ffi::c_int;
use std::sync::Arc;

use crate::libpq::{Connection, Functions, Got, Message};
use crate::socket_out::{Read, SocketOut};
use crate::turn::{Outcome, Side, Waits, Woken};

pub struct CopyOut {
    functions: Arc<Functions>,
    connection: Connection,
    way: Way,
    ended: bool,
}

enum Way {
    Libpq(Option<Message>),
    Socket(SocketOut),
}

/// What there is next of a stream.
pub enum Next {
    /// See `CopyOut::row`.
    Row,
    Ended,
    /// The turn ends here.
    Out(Outcome),
}

impl CopyOut {
    /// Parameters:
    ///     unanswered: libpq has sent the statement over a plain connection, and has read nothing
    ///         since; else it is in the midst of COPY.
    pub fn new(functions: Arc<Functions>, connection: Connection, unanswered: bool) -> Self {
        let way = if unanswered {
            Way::Socket(SocketOut::new(functions.socket(connection)))
        } else {
            Way::Libpq(None)
        };
        Self {
            functions,
            connection,
            way,
            ended: false,
        }
    }

    /// The row that `next` has come to.
    pub fn row(&self) -> &[u8] {
        match &self.way {
            Way::Libpq(message) => message.as_ref().map_or(&[], Message::bytes),
            Way::Socket(socket) => socket.row(),
        }
    }

    /// Free the memory of a large `row`, once it has been copied: using the copy may take a while.
    pub fn release(&mut self) {
        match &mut self.way {
            Way::Libpq(message) => *message = None,
            Way::Socket(socket) => socket.shrink(),
        }
    }

    /// Wait for the next row, until the turn is over.
    ///
    /// `watched` is the target's socket, or negative: it speaks in mid-stream when something is
    /// wrong.
    pub fn next(&mut self, waits: &mut Waits, watched: c_int) -> Next {
        if self.ended {
            return Next::Ended;
        }
        loop {
            match &mut self.way {
                Way::Libpq(message) => {
                    *message = None; // a large row is not held while another one comes
                    match self.functions.get(self.connection) {
                        Got::Message(found) => {
                            *message = Some(found);
                            return Next::Row;
                        }
                        Got::Ended => {
                            self.ended = true;
                            return Next::Ended;
                        }
                        Got::Failed => return Next::Out(Outcome::SourceFailed),
                        Got::Nothing => {}
                    }
                }
                Way::Socket(socket) => match socket.next() {
                    Read::Row => return Next::Row,
                    Read::Ended => {
                        self.ended = true;
                        return match socket.tell(&self.functions, self.connection) {
                            Ok(()) => Next::Ended,
                            Err(_) => Next::Out(Outcome::SourceFailed),
                        };
                    }
                    Read::Nothing => {}
                },
            }
            let socket = self.functions.socket(self.connection);
            match waits.wait(Side::Source, socket, false, watched) {
                Woken::Ready if matches!(self.way, Way::Socket(_)) => {}
                Woken::Ready if self.functions.consume(self.connection) => {}
                Woken::Ready => return Next::Out(Outcome::SourceFailed),
                Woken::Watched => return Next::Out(Outcome::Spoke),
                Woken::Over => return Next::Out(Outcome::More),
            }
        }
    }
}
