// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of samples that a call graph needs.

use perfmon::event::Builder;

use crate::args::{CallGraph, Callers, KernelCallers};
use crate::recording::perfdata::UserStack;

/// Adds to an event the parts of samples that the call graph needs.
pub(super) fn with_callers(builder: Builder, graph: CallGraph) -> Builder {
    let builder = builder.callchain();
    let with_kernel_part = |builder: Builder, kernel| match kernel {
        KernelCallers::Recorded => builder,
        KernelCallers::LeftOut => builder.no_kernel_callchain(),
    };
    match graph {
        CallGraph::FramePointers(Callers::All) => builder,
        CallGraph::FramePointers(Callers::Programs) => builder.no_kernel_callchain(),
        CallGraph::FramePointers(Callers::Kernel) => builder.no_user_callchain(),
        // The program's part of the chain is unwound from its stack.
        CallGraph::Dwarf { stack, kernel } => with_kernel_part(builder, kernel)
            .user_stack(stack, UserStack::REGISTER_MASK)
            .no_user_callchain(),
        CallGraph::LastBranches(kernel) => with_kernel_part(builder, kernel),
    }
}
