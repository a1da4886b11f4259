//! A COPY FROM STDIN, in pieces that are sent one after another.

use std::ffi::c_int;
use std::sync::Arc;

use crate::libpq::{Connection, Functions};
pub use crate::socket_in::HEAD;
use crate::socket_in::SocketIn;

pub struct CopyIn {
    functions: Arc<Functions>,
    connection: Connection,
    socket: Option<SocketIn>,
}

impl CopyIn {
    pub fn new(functions: Arc<Functions>, connection: Connection) -> Self {
        let plain = functions.is_plain(connection);
        let socket = plain.then(|| SocketIn::new(functions.socket(connection)));
        Self {
            functions,
            connection,
            socket,
        }
    }

    pub fn fd(&self) -> c_int {
        self.functions.socket(self.connection)
    }

    /// Hand on the bytes after the first `HEAD`, and take them away. False: the connection is
    /// broken, or has no memory.
    pub fn put(&mut self, piece: &mut Vec<u8>) -> bool {
        if let Some(socket) = &mut self.socket {
            return socket.put(piece);
        }
        let fine = self.functions.put(self.connection, &piece[HEAD..]);
        piece.truncate(HEAD);
        fine
    }

    /// Whether all is sent; None where the connection is broken.
    pub fn flush(&mut self) -> Option<bool> {
        match &mut self.socket {
            Some(socket) => socket.flush(),
            None => self.functions.flush(self.connection),
        }
    }
}
