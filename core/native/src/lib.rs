//! Moves COPY streams of PostgreSQL outside of the Python interpreter.

mod buffer;
mod copy_in;
mod copy_out;
mod decode;
mod encode;
mod json_lines;
mod libpq;
mod lines;
mod pump;
mod socket_in;
mod socket_out;
mod turn;

use pyo3::prelude::*;

#[pymodule]
fn penstock_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<libpq::Libpq>()?;
    module.add_class::<decode::Decoder>()?;
    module.add_class::<encode::Encoder>()?;
    module.add_class::<lines::Lines>()?;
    module.add_class::<pump::Pump>()?;
    module.add_function(wrap_pyfunction!(json_lines::json_columns, module)?)?;
    Ok(())
}
