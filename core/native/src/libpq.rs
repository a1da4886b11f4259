//! Functions of the libpq that psycopg has loaded: no other one knows its connections.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// A `PGconn*`, of a connection that psycopg keeps open.
#[derive(Clone, Copy)]
pub struct Connection(pub *mut c_void);

// SAFETY: one thread at a time uses it: whoever has the `&mut` of what holds it.
unsafe impl Send for Connection {}
unsafe impl Sync for Connection {}

/// See <https://www.postgresql.org/docs/current/libpq-copy.html>.
pub struct Functions {
    get_copy_data: unsafe extern "C" fn(*mut c_void, *mut *mut c_char, c_int) -> c_int,
    put_copy_data: unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> c_int,
    free: unsafe extern "C" fn(*mut c_void),
    consume_input: unsafe extern "C" fn(*mut c_void) -> c_int,
    flush: unsafe extern "C" fn(*mut c_void) -> c_int,
    socket: unsafe extern "C" fn(*const c_void) -> c_int,
    ssl_in_use: unsafe extern "C" fn(*mut c_void) -> c_int,
    /// Since libpq 12: an older one knows no such encryption.
    gss_in_use: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

/// The library, found through one that is linked with it.
#[pyclass(frozen)]
pub struct Libpq {
    pub functions: Arc<Functions>,
}

#[pymethods]
impl Libpq {
    /// Parameters:
    ///     path: of a shared library that is loaded: libpq itself, or one that is linked with it.
    ///
    /// Raises:
    ///     OSError: it is not loaded, or has no such functions.
    #[new]
    fn new(path: &str) -> PyResult<Self> {
        let name = CString::new(path).map_err(|_| PyOSError::new_err("a zero byte in the path"))?;
        // SAFETY: RTLD_NOLOAD runs no code of the library's, and the handle is kept for ever.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return Err(PyOSError::new_err(format!("{path} is not loaded")));
        }
        // SAFETY: the types are those of the documentation, unchanged since libpq 9.
        let functions = unsafe {
            Functions {
                get_copy_data: find(handle, c"PQgetCopyData")?,
                put_copy_data: find(handle, c"PQputCopyData")?,
                free: find(handle, c"PQfreemem")?,
                consume_input: find(handle, c"PQconsumeInput")?,
                flush: find(handle, c"PQflush")?,
                socket: find(handle, c"PQsocket")?,
                ssl_in_use: find(handle, c"PQsslInUse")?,
                gss_in_use: find(handle, c"PQgssEncInUse").ok(),
            }
        };
        Ok(Self {
            functions: Arc::new(functions),
        })
    }

    /// Whether bytes pass a connection's socket as they are: without encryption.
    fn is_plain(&self, connection: usize) -> bool {
        self.functions.is_plain(Connection(connection as *mut _))
    }
}

/// A function of an open library.
///
/// # Safety
///
/// `F` is a pointer to a function of the type that this one has.
unsafe fn find<F: Copy>(handle: *mut c_void, name: &CStr) -> PyResult<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) }
    // SAFETY: the handle is open.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        return Err(PyOSError::new_err(format!(
            "no {} there",
            name.to_string_lossy()
        )));
    }
    // SAFETY: as the caller promises; it is not null.
    Ok(unsafe { std::mem::transmute_copy(&found) })
}

/// A message of COPY, which libpq has allocated.
pub struct Message {
    data: *mut c_char,
    length: usize,
    free: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: nobody else has the memory.
unsafe impl Send for Message {}
unsafe impl Sync for Message {}

impl Message {
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: libpq says that so many bytes are there.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.length) }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: libpq has allocated it, and it is freed once.
        unsafe { (self.free)(self.data.cast()) }
    }
}

pub enum Got {
    Message(Message),
    /// Nothing that is whole is there yet.
    Nothing,
    /// The stream has ended; what the server says of that is to be asked for.
    Ended,
    Failed,
}

impl Functions {
    pub fn get(&self, connection: Connection) -> Got {
        let mut data = std::ptr::null_mut();
        // SAFETY: the connection is open, as whoever has made this promises.
        let length = unsafe { (self.get_copy_data)(connection.0, &mut data, 1) };
        match length {
            0 => Got::Nothing,
            -1 => Got::Ended,
            length if length > 0 && !data.is_null() => Got::Message(Message {
                data,
                length: length as usize,
                free: self.free,
            }),
            _ => Got::Failed,
        }
    }

    /// Hand bytes on. False: the connection is broken, or has no memory.
    pub fn put(&self, connection: Connection, bytes: &[u8]) -> bool {
        let Ok(length) = c_int::try_from(bytes.len()) else {
            return false;
        };
        // SAFETY: as above; libpq copies the bytes.
        unsafe { (self.put_copy_data)(connection.0, bytes.as_ptr().cast(), length) == 1 }
    }

    /// Whether all is sent; None where the connection is broken.
    pub fn flush(&self, connection: Connection) -> Option<bool> {
        // SAFETY: as above.
        match unsafe { (self.flush)(connection.0) } {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        }
    }

    /// False: the connection is broken.
    pub fn consume(&self, connection: Connection) -> bool {
        // SAFETY: as above.
        unsafe { (self.consume_input)(connection.0) == 1 }
    }

    pub fn is_plain(&self, connection: Connection) -> bool {
        // SAFETY: as above.
        unsafe {
            (self.ssl_in_use)(connection.0) == 0
                && self.gss_in_use.is_none_or(|gss| gss(connection.0) == 0)
        }
    }

    pub fn socket(&self, connection: Connection) -> c_int {
        // SAFETY: as above.
        unsafe { (self.socket)(connection.0) }
    }
}
