// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's errors as exceptions.

use perfmon::spec::SpecError;
use perfmon::{Cause, Pmu};
use pyo3::exceptions::PyException;
use pyo3::{PyErr, create_exception};

create_exception!(perfmon, Error, PyException, "Counting failed.");
create_exception!(
    perfmon,
    EventError,
    Error,
    "No event has this name, or the CPU does not have it."
);
create_exception!(
    perfmon,
    DeviceError,
    Error,
    "There is no driver, or this process may not use it."
);
create_exception!(
    perfmon,
    BusyError,
    Error,
    "No counter is free for the events."
);

/// Advice if nothing can be counted.
const VM_ADVICE: &str = "Without a PMU or the driver, run the program in a virtual machine that has both: \
                         `pmctl vm --run -- python3 ...`.";

/// Returns the exception for an error of the library.
pub(crate) fn exception(error: &perfmon::Error) -> PyErr {
    let mut lines = vec![error.to_string()];
    lines.extend(error.cause.help().map(str::to_owned));
    match error.cause {
        Cause::Absent => {
            lines.push(VM_ADVICE.to_owned());
            DeviceError::new_err(lines.join("\n"))
        }
        Cause::NodeForbidden | Cause::Forbidden | Cause::LockedDown | Cause::Version(_) => {
            DeviceError::new_err(lines.join("\n"))
        }
        Cause::NoSuchEvent | Cause::NotSupported => EventError::new_err(lines.join("\n")),
        Cause::NoFreeCounter(_) => BusyError::new_err(lines.join("\n")),
        _ => Error::new_err(lines.join("\n")),
    }
}

/// Returns the exception for a text that names no event of this PMU.
pub(crate) fn name_exception(error: &SpecError, pmu: &Pmu) -> PyErr {
    if error.is_absent() && pmu.capabilities().is_err() {
        return DeviceError::new_err(format!("{error}\n{VM_ADVICE}"));
    }
    EventError::new_err(error.to_string())
}
