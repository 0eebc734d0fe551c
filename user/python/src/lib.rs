// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Rust part of the Python package `perfmon`: the module `perfmon._perfmon`.
//!
//! Everything that starts, stops and reads events is here, so that little besides the block is
//! counted. The Python part of the package looks up and formats counts.

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
