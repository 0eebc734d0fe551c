// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part in Rust of the package `perfmon` for Python: the module `perfmon._perfmon`.
//!
//! Everything that has an effect on counts is here, so that little is counted beside the block itself. How counts are
//! looked up and shown is in Python.

mod block;
mod error;
mod events;

use pyo3::prelude::*;

#[pymodule]
mod _perfmon {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::block::Block;
    #[pymodule_export]
    use super::error::{BusyError, DeviceError, Error, EventError};
    #[pymodule_export]
    use super::events::names;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
