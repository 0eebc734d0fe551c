// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl`: counts what x86 CPUs do, through `/dev/perfmon`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pmctl::main()
}
