// SPDX-License-Identifier: MIT OR Apache-2.0
//! The size of a trace's buffers.

use crate::Info;

/// The size of a trace's buffers.
///
/// ```no_run
/// use perfmon::Device;
/// use perfmon::trace::Alloc;
///
/// // 1 MB for each CPU.
/// let alloc = Alloc::new(&Device::open()?.info()?, 256);
/// # Ok::<(), perfmon::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alloc {
    /// Number of buffers, one for each CPU number: [`Info::cpu_ids`].
    pub buffers: u32,
    /// Size of each buffer in pages of 4096 bytes: 1 to 65536.
    pub pages: u32,
}

impl Alloc {
    /// Describes buffers of `pages` pages, one for each CPU number of the machine.
    #[must_use]
    pub const fn new(info: &Info, pages: u32) -> Self {
        Self {
            buffers: info.cpu_ids,
            pages,
        }
    }
}
