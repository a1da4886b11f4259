//! Memory that is handed over to Python as it is.

use std::ffi::{c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Bytes that Python may look at, without a copy. They never change.
#[pyclass(frozen)]
pub struct Buffer {
    start: *const c_void,
    length: usize,
    /// Dropped with this, which drops the bytes.
    _owner: Box<dyn Send + Sync>,
}

// SAFETY: the bytes are the owner's, and nobody writes them any more.
unsafe impl Send for Buffer {}
unsafe impl Sync for Buffer {}

impl Buffer {
    pub fn new<T: Copy + Send + Sync + 'static>(values: Vec<T>) -> Self {
        // A vector's memory stays where it is when the vector itself moves.
        let (start, length) = (values.as_ptr().cast(), size_of_val(values.as_slice()));
        Self {
            start,
            length,
            _owner: Box::new(values),
        }
    }
}

#[pymethods]
impl Buffer {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let length = ffi::Py_ssize_t::try_from(slf.get().length)
            .map_err(|_| PyBufferError::new_err("too long"))?;
        let start = slf.get().start.cast_mut();
        // SAFETY: the view keeps this object, and so the bytes.
        let failed = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) };
        if failed == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }

    fn __len__(&self) -> usize {
        self.length
    }
}
