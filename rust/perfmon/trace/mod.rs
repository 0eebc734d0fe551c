// SPDX-License-Identifier: GPL-2.0-only
//! The calls of the trace interface, which samples the whole machine.
//!
//! Each call makes its checks in the order of the table of errors in linux/perfmon.h. The dispatcher ([`crate::ioctl`])
//! makes the first three checks. A trace belongs to a session that is open for writing, and there is one such session
//! at a time, so one trace runs at a time.

pub(crate) mod buffer;
pub(crate) mod cpu;
mod info;

pub(crate) use self::info::{get_info, get_properties};

use self::{buffer::Buffer, cpu::CpuTraceConfig};
use crate::{
    abi,
    cpu::possible_cpus,
    logic::{
        counter::mask_of,
        evtsel::EventSelect,
        trace_config::{Config, ConfigEvent, CounterChoice},
        trace_events::{Definition, EventId},
        trace_state::{TraceCall, TraceState, WrongState},
    },
    ownership::{
        cancel_reservation, lock_reserved,
        policy::{check_may_count_cpu, check_may_count_kernel},
        wait_for_place_holder_end, Ownership, OWNERSHIP,
    },
    pmu,
    sys::{error::of_uncounted, file},
};
use core::mem;
use kernel::{
    cpu::{nr_cpu_ids, CpuId},
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{Arc, Mutex},
};

/// The trace of a session.
#[pin_data]
pub(crate) struct Trace {
    #[pin]
    inner: Mutex<Inner>,
}

impl Trace {
    /// Returns a trace without buffers.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_mutex!(Inner::IDLE),
        })
    }
}

/// A staged configuration. `raw` and `config` are created on the heap, since they are too large for a kernel stack.
struct StagedConfig {
    /// The configuration as the program passed it, for GET_CONFIG.
    raw: KBox<abi::perfmon_config>,
    config: KBox<Config>,
    /// The records may show address spaces and kernel addresses.
    allow_kernel_addrs: bool,
}

/// The value of [`Inner::alloc`] for a trace without buffers.
const NO_ALLOC: abi::perfmon_alloc = abi::perfmon_alloc {
    num_buffers: 0,
    buffer_size_in_pages: 0,
};

/// The state of a trace, and the objects that it owns.
///
/// # Invariants
///
/// - `buffers` has one buffer for each CPU number, unless `state` is [`TraceState::Idle`].
/// - `staged` is `Some` if `state` is [`TraceState::Staged`] or [`TraceState::Running`].
/// - While `state` is [`TraceState::Running`], the trace owns `counters`, and CPUs may write to the
///   buffers. Otherwise `counters` is 0, and no CPU writes to the buffers.
struct Inner {
    state: TraceState,
    /// The events that the session has defined, by event ID. `None` in [`Self::IDLE`], since a constant can't
    /// contain an empty tree.
    definitions: Option<RBTree<u16, Definition>>,
    alloc: abi::perfmon_alloc,
    buffers: KVec<Arc<Buffer>>,
    staged: Option<StagedConfig>,
    counters: u64,
}

impl Inner {
    const IDLE: Self = Self {
        state: TraceState::Idle,
        definitions: None,
        alloc: NO_ALLOC,
        buffers: KVec::new(),
        staged: None,
        counters: 0,
    };

    /// Returns the buffer of the current CPU; `None` if the CPU is not traced, so that its buffer is only a header.
    fn buffer_here(&self) -> Option<&Buffer> {
        let cpu = CpuId::current();
        let buffer = self.buffers.get(cpu.as_u32() as usize)?;
        buffer.is_traced().then_some(buffer)
    }

    /// Returns the session's definition of `id`.
    fn definition(&self, id: EventId) -> Option<Definition> {
        self.definitions.as_ref()?.get(&id.0).copied()
    }

    /// Stops the trace on all CPUs, if it is running.
    ///
    /// # Errors
    ///
    /// EIO if one of the trace's counters was tampered with.
    fn end_recording(&mut self, ownership: &mut Ownership) -> Result {
        if self.state != TraceState::Running {
            return Ok(());
        }
        ownership.on_each(|here| cpu::finish(here, 0));
        let is_intact = ownership.are_untampered(self.counters);
        ownership.end_traced_branches();
        if self.counters != 0 {
            ownership.release_counters(self.counters);
        }
        // INVARIANT: Recording has ended on all CPUs, and the counters were released.
        self.state = TraceState::Staged;
        self.counters = 0;
        if is_intact {
            Ok(())
        } else {
            Err(EIO)
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.state == TraceState::Running {
            // The session has ended, so no caller is left to get the error.
            let _ = self.end_recording(&mut OWNERSHIP.lock());
        }
    }
}

/// Serves `PERFMON_DEFINE_EVENT`.
pub(crate) fn define_event(trace: &Trace, request: abi::perfmon_event_definition) -> Result {
    let has_reserved_bits =
        request.reserved != 0 || request.reserved2.iter().any(|&word| word != 0);
    if has_reserved_bits || request.extra != 0 {
        return Err(EINVAL);
    }
    let pmu = pmu::common();
    let kind = pmu.kinds.kind_of_type(request.type_)?;
    let capabilities = pmu.kinds.capabilities_of(kind, &pmu.capabilities);
    let select = EventSelect::from_abi(request.select, capabilities.select_bits)?;
    let id = EventId(request.id);
    if !id.is_definable() {
        return Err(EINVAL);
    }
    check_may_count_cpu()?;
    let mut inner = trace.inner.lock();
    inner.state.after(TraceCall::Define)?;
    OWNERSHIP.lock().check_event(select, kind)?;
    let definition = match kind {
        None => Definition::on_all(select),
        Some(kind) => {
            let kind = pmu.kinds.are_several().then_some(kind);
            Definition::on_kind(select, kind, &capabilities).map_err(of_uncounted)?
        }
    };
    let node = RBTreeNode::new(id.0, definition, GFP_KERNEL_ACCOUNT)?;
    let definitions = inner.definitions.get_or_insert_with(RBTree::new);
    drop(definitions.insert(node));
    Ok(())
}

/// Serves `IOCTL_PERFMON_ALLOC_TRACE`.
pub(crate) fn alloc(trace: &Trace, request: abi::perfmon_alloc) -> Result {
    check_may_count_cpu()?;
    trace.inner.lock().state.after(TraceCall::Alloc)?;
    let pages = request.buffer_size_in_pages;
    if request.num_buffers != nr_cpu_ids() || !(1..=abi::PERFMON_MAX_BUFFER_PAGES).contains(&pages)
    {
        return Err(EINVAL);
    }

    let mut buffers = KVec::with_capacity(nr_cpu_ids() as usize, GFP_KERNEL_ACCOUNT)?;
    for id in possible_cpus() {
        // Memory is allocated without the locks, so another thread may allocate buffers at the same time, and CPUs may
        // go online or offline. A CPU is traced if it is used for counting now, or will be after the system's sleep.
        trace.inner.lock().state.after(TraceCall::Alloc)?;
        let is_traced = OWNERSHIP.lock().cpus().is_counted(id);
        let buffer = Buffer::new(pages, is_traced)?;
        buffers.push(Arc::new(buffer, GFP_KERNEL_ACCOUNT)?, GFP_KERNEL_ACCOUNT)?;
    }
    // The guard is declared after `buffers`, so that on an error the lock is released before the buffers are freed.
    let mut inner = trace.inner.lock();
    let state = inner.state.after(TraceCall::Alloc)?;
    // INVARIANT: `buffers` has one buffer for each CPU number.
    inner.state = state;
    inner.alloc = request;
    inner.buffers = buffers;
    Ok(())
}

/// Serves `IOCTL_PERFMON_FREE_TRACE`.
pub(crate) fn free(trace: &Trace) -> Result {
    check_may_count_cpu()?;
    // Declared before the guard `inner`, so that the memory is freed after the lock is released.
    let _freed;
    let mut inner = trace.inner.lock();
    // INVARIANT: `after` refuses to free a running trace, so `counters` is 0. The defined events are kept.
    inner.state = inner.state.after(TraceCall::Free)?;
    inner.alloc = NO_ALLOC;
    _freed = (mem::take(&mut inner.buffers), inner.staged.take());
    Ok(())
}

/// Serves `IOCTL_PERFMON_GET_ALLOC`.
pub(crate) fn get_alloc(trace: &Trace) -> Result<abi::perfmon_alloc> {
    check_may_count_cpu()?;
    let inner = trace.inner.lock();
    inner.state.after(TraceCall::GetAlloc)?;
    Ok(inner.alloc)
}

/// Serves `IOCTL_PERFMON_STAGE_CONFIG`.
pub(crate) fn stage(trace: &Trace, raw: KBox<abi::perfmon_config>) -> Result {
    check_may_count_cpu()?;
    let may_count_kernel = check_may_count_kernel();
    if raw
        .flags
        .iter()
        .any(|flags| flags & abi::PERFMON_CONFIG_FLAG_OS != 0)
    {
        may_count_kernel?;
    }
    let mut inner = trace.inner.lock();
    let state = inner.state.after(TraceCall::Stage)?;
    let mut config = KBox::new(Config::EMPTY, GFP_KERNEL_ACCOUNT)?;
    let pmu = pmu::common();
    config.set(&raw, &pmu.capabilities, &pmu.kinds, |id| {
        inner.definition(id)
    })?;
    inner.staged = Some(StagedConfig {
        raw,
        config,
        allow_kernel_addrs: may_count_kernel.is_ok(),
    });
    // INVARIANT: `staged` was just set.
    inner.state = state;
    Ok(())
}

/// Serves `IOCTL_PERFMON_GET_CONFIG`.
pub(crate) fn get_config(trace: &Trace) -> Result<abi::perfmon_config> {
    check_may_count_cpu()?;
    let inner = trace.inner.lock();
    inner.state.after(TraceCall::GetConfig)?;
    let staged = inner.staged.as_ref().ok_or(WrongState)?;
    Ok(*staged.raw)
}

/// Serves `IOCTL_PERFMON_GET_BUFFER_HANDLE`.
pub(crate) fn get_buffer_handle(
    trace: &Trace,
    request: abi::perfmon_buffer_handle_req,
) -> Result<c_int> {
    if request.descriptor >= nr_cpu_ids() {
        return Err(EINVAL);
    }
    check_may_count_cpu()?;
    let buffer = {
        let inner = trace.inner.lock();
        inner.state.after(TraceCall::GetBufferHandle)?;
        let buffer = inner.buffers.get(request.descriptor as usize);
        buffer.ok_or(EINVAL)?.clone()
    };
    file::open(buffer)
}

/// Serves `IOCTL_PERFMON_START`.
pub(crate) fn start(trace: &Trace) -> Result {
    check_may_count_cpu()?;
    let mut guard = trace.inner.lock();
    let inner: &mut Inner = &mut guard;
    let state = inner.state.after(TraceCall::Start)?;
    let staged = inner.staged.as_ref().ok_or(WrongState)?;
    if staged.config.has_kernel() {
        check_may_count_kernel()?;
    }
    // If all events are values, the trace needs no counter, so it starts even if other programs have the counters.
    let is_value = |event: &ConfigEvent| matches!(event.counters, CounterChoice::Value(_));
    if staged.config.events().all(is_value) {
        return start_on_all_cpus(inner, state, &mut OWNERSHIP.lock());
    }
    let mut ownership = lock_reserved(|ownership| {
        let counters = staged.config.assign(ownership.free_counters());
        counters.ok_or(EBUSY)?;
        ownership.check_exclusive(None)
    })?;
    let result = start_on_all_cpus(inner, state, &mut ownership);
    if result.is_err() {
        cancel_reservation(ownership);
    }
    result
}

/// Gives the trace its counters, which the caller has reserved, and starts it on all CPUs.
///
/// # Errors
///
/// EBUSY if the trace and open events both record branches. EIO if a counter does not hold the
/// value that is written to it.
fn start_on_all_cpus(inner: &mut Inner, state: TraceState, ownership: &mut Ownership) -> Result {
    let staged = inner.staged.as_ref().ok_or(WrongState)?;
    let counters = staged
        .config
        .assign(ownership.free_counters())
        .ok_or(EBUSY)?;
    let counter_mask = mask_of(counters.iter().flatten().copied());
    if counter_mask != 0 {
        if staged.config.last_branch().is_some() {
            ownership.begin_traced_branches()?;
        }
        ownership.give_to_trace(counter_mask);
    }
    for (cpu, buffer) in possible_cpus().zip(&inner.buffers) {
        if buffer.is_traced() && !ownership.cpus().in_use().contains(cpu) {
            // SAFETY: `clear` requires a buffer that is alive, which `inner.buffers` holds, and that nothing else
            // writes to it: the trace owns the buffer, and no CPU records before `cpu::begin` below.
            unsafe { buffer.as_ptr().clear(abi::PERFMON_BUFFER_FLAG_OFFLINE) };
        }
    }
    for percpu in ownership.uncounted_percpus() {
        percpu.tampered.remove(counter_mask);
    }
    let config = CpuTraceConfig {
        config: &staged.config,
        cpus: ownership.cpus().in_use(),
        buffers: &inner.buffers,
        counters: &counters,
        allow_kernel_addrs: staged.allow_kernel_addrs,
    };
    ownership.on_each(|here| {
        here.percpu().tampered.remove(counter_mask);
        if let Some(buffer) = inner.buffer_here() {
            // SAFETY: `begin` requires a buffer without a writer: `inner` is not running, so no CPU writes to its
            // buffers, as the invariant says. The buffer must live, and be written by this CPU only, until `finish`: it
            // is this CPU's own, and a trace that runs keeps its buffers, since `TraceState::after` allows neither ALLOC
            // nor FREE, and `Inner::drop` ends the recording before its fields are dropped.
            unsafe { cpu::begin(here, &config, buffer) };
        }
    });
    // INVARIANT: `give_to_trace` has given the counters to the trace.
    inner.state = state;
    inner.counters = counter_mask;
    if ownership.are_untampered(counter_mask) {
        Ok(())
    } else {
        inner.end_recording(ownership)
    }
}

/// Serves `IOCTL_PERFMON_STOP`.
pub(crate) fn stop(trace: &Trace) -> Result {
    check_may_count_cpu()?;
    let mut inner = trace.inner.lock();
    inner.state.after(TraceCall::Stop)?;
    let result = inner.end_recording(&mut OWNERSHIP.lock());
    wait_for_place_holder_end();
    result
}
