//! Bytes of a COPY FROM STDIN, written to the socket of a connection without encryption.
//!
//! libpq has begun the stream and ends it; in between it would copy the bytes once more.

use std::ffi::c_int;
use std::io;

/// CopyData: a letter, and a length that counts itself.
pub const HEAD: usize = 5;

pub struct SocketIn {
    fd: c_int,
    message: Vec<u8>,
    sent: usize,
}

impl SocketIn {
    pub fn new(fd: c_int) -> Self {
        let (message, sent) = (vec![0; HEAD], HEAD);
        Self { fd, message, sent }
    }

    /// Take the bytes after the first five, which are left in their place without them.
    ///
    /// All that was put before is sent.
    pub fn put(&mut self, message: &mut Vec<u8>) -> bool {
        let Ok(length) = u32::try_from(message.len() - 1) else {
            return false;
        };
        message[0] = b'd';
        message[1..HEAD].copy_from_slice(&length.to_be_bytes());
        std::mem::swap(&mut self.message, message);
        message.truncate(HEAD);
        self.sent = 0;
        true
    }

    /// Whether all is sent; None where the connection is broken.
    pub fn flush(&mut self) -> Option<bool> {
        while let rest @ [_, ..] = &self.message[self.sent..] {
            // SAFETY: so many bytes are there.
            let sent = unsafe {
                libc::send(
                    self.fd,
                    rest.as_ptr().cast(),
                    rest.len(),
                    libc::MSG_NOSIGNAL,
                )
            };
            if sent >= 0 {
                self.sent += sent as usize;
                continue;
            }
            match io::Error::last_os_error().kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Some(false),
                _ => return None,
            }
        }
        Some(true)
    }
}
