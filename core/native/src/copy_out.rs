//! The rows of a COPY TO STDOUT, message by message.

use std::ffi::c_int;
use std::sync::Arc;

use crate::libpq::{Connection, Functions, Got, Message};
use crate::turn::{Outcome, Side, Waits, Woken};

pub struct CopyOut {
    functions: Arc<Functions>,
    connection: Connection,
    ended: bool,
}

/// What there is next of a stream.
pub enum Next {
    Message(Message),
    Ended,
    /// The turn ends here.
    Out(Outcome),
}

impl CopyOut {
    pub fn new(functions: Arc<Functions>, connection: Connection) -> Self {
        Self {
            functions,
            connection,
            ended: false,
        }
    }

    /// Wait for the next message, until the turn is over.
    ///
    /// `watched` is the target's socket, or negative: it speaks in mid-stream when something is
    /// wrong.
    pub fn next(&mut self, waits: &mut Waits, watched: c_int) -> Next {
        if self.ended {
            return Next::Ended;
        }
        loop {
            match self.functions.get(self.connection) {
                Got::Message(message) => return Next::Message(message),
                Got::Ended => {
                    self.ended = true;
                    return Next::Ended;
                }
                Got::Failed => return Next::Out(Outcome::SourceFailed),
                Got::Nothing => {}
            }
            let socket = self.functions.socket(self.connection);
            match waits.wait(Side::Source, socket, false, watched) {
                Woken::Ready if self.functions.consume(self.connection) => {}
                Woken::Ready => return Next::Out(Outcome::SourceFailed),
                Woken::Watched => return Next::Out(Outcome::Spoke),
                Woken::Over => return Next::Out(Outcome::More),
            }
        }
    }
}
