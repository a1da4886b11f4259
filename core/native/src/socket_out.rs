//! What a server sends in a COPY TO STDOUT, read from the socket of a connection without encryption.
//!
//! libpq has sent the statement, and is told what the server says of it in the end. It never sees
//! the rows: it would allocate each, and read 16 kB at a time. The messages are those of
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>.

use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::libpq::{Connection, Functions};
use crate::turn::is_readable;

/// Larger gains nothing (measured).
const ROOM: usize = 256 * 1024;
/// A letter, and a length that counts itself.
const HEAD: usize = 5;

pub struct SocketOut {
    fd: c_int,
    buffer: Vec<u8>,
    /// Of the buffer: what is read, and not looked at yet.
    unread: Range<usize>,
    row: Range<usize>,
    /// Messages for libpq.
    told: Vec<u8>,
}

pub enum Read {
    Row,
    /// Nothing that is whole is there yet.
    Nothing,
    /// The server has said all, or has gone.
    Ended,
}

impl SocketOut {
    pub fn new(fd: c_int) -> Self {
        Self {
            fd,
            buffer: vec![0; ROOM],
            unread: 0..0,
            row: 0..0,
            told: Vec::new(),
        }
    }

    /// The row that was read last.
    pub fn row(&self) -> &[u8] {
        &self.buffer[self.row.clone()]
    }

    pub fn next(&mut self) -> Read {
        loop {
            let Some(length) = self.whole() else {
                match self.fill() {
                    Ok(true) => continue,
                    Ok(false) => return Read::Nothing,
                    Err(()) => return Read::Ended,
                }
            };
            let start = self.unread.start;
            self.unread.start += length;
            match self.buffer[start] {
                b'd' => {
                    self.row = start + HEAD..start + length;
                    return Read::Row;
                }
                // That a COPY begins and that it ends; and what nobody listens to.
                b'H' | b'c' | b'N' | b'A' => {}
                letter => {
                    self.told
                        .extend_from_slice(&self.buffer[start..start + length]);
                    if letter == b'Z' {
                        return Read::Ended;
                    }
                }
            }
        }
    }

    /// The length of the next message, if all of it is there.
    fn whole(&self) -> Option<usize> {
        let length = self.announced()?;
        (length <= self.unread.len()).then_some(length)
    }

    fn announced(&self) -> Option<usize> {
        let head = self.buffer[self.unread.clone()].get(1..HEAD)?;
        let length = u32::from_be_bytes(head.try_into().ok()?);
        Some(1 + (length as usize).max(HEAD - 1))
    }

    /// Hold no more memory than is needed for what is unread; the row is gone.
    pub fn shrink(&mut self) {
        if self.buffer.len() > ROOM && self.unread.len() <= ROOM {
            self.resize(ROOM);
        }
    }

    fn resize(&mut self, room: usize) {
        let mut buffer = vec![0; room];
        buffer[..self.unread.len()].copy_from_slice(&self.buffer[self.unread.clone()]);
        self.buffer = buffer;
        self.unread = 0..self.unread.len();
        self.row = 0..0;
    }

    /// Read more. False: nothing is there. An error: nothing will be.
    fn fill(&mut self) -> Result<bool, ()> {
        let needed = self.announced().unwrap_or(HEAD);
        // A large row's memory is given back once it is handed on.
        let room = needed.max(ROOM);
        if self.buffer.len() < needed || (self.buffer.len() > room && self.unread.len() <= room) {
            self.resize(room);
        } else if self.unread.start > 0 {
            self.buffer.copy_within(self.unread.clone(), 0);
        }
        self.unread = 0..self.unread.len();
        self.row = 0..0;
        let free = &mut self.buffer[self.unread.end..];
        loop {
            // SAFETY: so many bytes may be written there.
            let read = unsafe { libc::recv(self.fd, free.as_mut_ptr().cast(), free.len(), 0) };
            if read > 0 {
                self.unread.end += read as usize;
                return Ok(true);
            }
            match io::Error::last_os_error().kind() {
                _ if read == 0 => return Err(()),
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Ok(false),
                _ => return Err(()),
            }
        }
    }

    /// Let libpq read what the server has said, as if it came from the server now; what there is
    /// besides, for instance that the server has gone, it finds itself.
    ///
    /// For this moment its descriptor is that of another socket.
    pub fn tell(&mut self, functions: &Functions, connection: Connection) -> io::Result<()> {
        let told = std::mem::take(&mut self.told);
        if told.is_empty() {
            return Ok(());
        }
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let _restored = Replaced::new(self.fd, theirs.into())?;
        let mut rest = &told[..];
        while !rest.is_empty() {
            match io::Write::write(&mut &ours, rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            // What is written is read at once, but not always in one go.
            while is_readable(self.fd) {
                if !functions.consume(connection) {
                    return Ok(()); // it has no memory, and says so when it is asked for the result
                }
            }
        }
        Ok(())
    }
}

/// A descriptor that stands for another socket as long as this lives.
struct Replaced {
    fd: c_int,
    kept: OwnedFd,
}

impl Replaced {
    fn new(fd: c_int, by: OwnedFd) -> io::Result<Self> {
        // SAFETY: it is open, as its connection is.
        let kept = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
        replace(fd, &by)?;
        Ok(Self { fd, kept })
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        // It cannot fail: both are open.
        let _ = replace(self.fd, &self.kept);
    }
}

fn replace(fd: c_int, by: &OwnedFd) -> io::Result<()> {
    // SAFETY: it closes nothing but what the descriptor stood for, of which there is a copy.
    match unsafe { libc::dup3(by.as_raw_fd(), fd, libc::O_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
