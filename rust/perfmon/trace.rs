// SPDX-License-Identifier: GPL-2.0-only
//! The trace interface: what its calls mean, on all CPUs.
//!
//! Each call makes its checks in the order that linux/perfmon.h gives; the first three are the
//! dispatcher's ([`crate::ioctl`]). There is one trace, the writer's, and it is in the arbiter.

use crate::{
    abi,
    arbiter::{Arbiter, ARBITER},
    buffer::Buffer,
    cpu::{self, on_each, ThisCpu},
    file,
    logic::{
        config::Config,
        counter::{bits, each},
        events::EventId,
        evtsel::EventSelect,
        trace_state::{TraceCall, TraceState, WrongState},
    },
    pmu::{self, Model},
    policy,
    recorder::{self, Program},
    session::Session,
};
use core::mem;
use kernel::{
    cpu::{nr_cpu_ids, CpuId},
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::Arc,
};

/// What a trace is to record. The large parts are on the heap from the beginning, so that none of them is
/// ever on a stack.
struct Staged {
    /// As it was asked for.
    raw: KBox<abi::perfmon_config>,
    config: KBox<Config>,
    /// Whether who asked may see address spaces and the kernel.
    reveal: bool,
}

/// The trace of the machine.
///
/// # Invariants
///
/// - There are `buffers`, one for each CPU number, unless `life` is [`TraceState::Idle`].
/// - There is `staged` if `life` is [`TraceState::Staged`] or [`TraceState::Running`].
/// - While it is [`TraceState::Running`], `counters` are reserved and nobody else's, and CPUs may use the buffers.
///   Otherwise there are none, and no CPU does.
pub(crate) struct Trace {
    life: TraceState,
    /// The events that programs have defined, by [`EventId`]. `None` if there are none: only that can be
    /// made by a constant function.
    definitions: Option<RBTree<u16, EventSelect>>,
    alloc: abi::perfmon_alloc,
    buffers: KVec<Arc<Buffer>>,
    staged: Option<Staged>,
    counters: u64,
}

impl Trace {
    pub(crate) const fn new() -> Self {
        Self {
            life: TraceState::Idle,
            definitions: None,
            alloc: abi::perfmon_alloc {
                num_buffers: 0,
                buffer_size_in_pages: 0,
            },
            buffers: KVec::new(),
            staged: None,
            counters: 0,
        }
    }

    /// Bits of the counters that it has.
    pub(crate) fn counters(&self) -> u64 {
        self.counters
    }

    /// The buffer of the current CPU, if that is traced.
    fn buffer(&self) -> Option<&Buffer> {
        let cpu = CpuId::current();
        let buffer = self.buffers.get(cpu.as_u32() as usize)?;
        buffer.is_traced().then_some(buffer)
    }

    /// What a program has defined `id` to be.
    fn definition(&self, id: EventId) -> Option<EventSelect> {
        self.definitions.as_ref()?.get(&id.0).copied()
    }
}

/// `PERFMON_DEFINE_EVENT`
pub(crate) fn define(_session: &Session, request: abi::perfmon_event_definition) -> Result {
    let reserved = request.reserved.iter().any(|&word| word != 0)
        || request.reserved2.iter().any(|&word| word != 0);
    if reserved || request.extra != 0 {
        return Err(EINVAL);
    }
    let bits = pmu::model().capabilities.select_bits;
    let select = EventSelect::from_abi(request.select, bits)?;
    let id = EventId(request.id);
    if !id.is_definable() {
        return Err(EINVAL);
    }
    policy::allow_counting()?;
    let node = RBTreeNode::new(id.0, select, GFP_KERNEL_ACCOUNT)?;
    // Declared before the guard, and so freed after the lock is released; the same holds for `node` on errors.
    let _replaced;
    let mut arbiter = ARBITER.lock();
    arbiter.trace.life.after(TraceCall::Define)?;
    arbiter.check_event(select)?;
    let definitions = &mut arbiter.trace.definitions;
    _replaced = definitions.get_or_insert_with(RBTree::new).insert(node);
    Ok(())
}

/// `IOCTL_PERFMON_ALLOC_TRACE`
pub(crate) fn alloc(_session: &Session, request: abi::perfmon_alloc) -> Result {
    policy::allow_counting()?;
    ARBITER.lock().trace.life.after(TraceCall::Alloc)?;
    let pages = request.buffer_size_in_pages;
    if request.num_buffers != nr_cpu_ids() || !(1..=abi::PERFMON_MAX_BUFFER_PAGES).contains(&pages)
    {
        return Err(EINVAL);
    }

    let mut buffers = KVec::with_capacity(nr_cpu_ids() as usize, GFP_KERNEL_ACCOUNT)?;
    for cpu in cpu::ids() {
        // The lock is not held while memory is allocated. Another thread may come first meanwhile, and CPUs
        // may come and go: a buffer is for the records of a CPU that is counted on when its turn comes.
        let traced = {
            let arbiter = ARBITER.lock();
            arbiter.trace.life.after(TraceCall::Alloc)?;
            arbiter.counted.contains(cpu)
        };
        let buffer = Buffer::new(pages, traced)?;
        buffers.push(Arc::new(buffer, GFP_KERNEL_ACCOUNT)?, GFP_KERNEL_ACCOUNT)?;
    }
    // Declared after `buffers`: on an error the lock is released before they are freed.
    let mut arbiter = ARBITER.lock();
    let life = arbiter.trace.life.after(TraceCall::Alloc)?;
    let trace = &mut arbiter.trace;
    // INVARIANT: There are buffers for all.
    trace.life = life;
    trace.alloc = request;
    trace.buffers = buffers;
    Ok(())
}

/// `IOCTL_PERFMON_FREE_TRACE`
pub(crate) fn free(_session: &Session) -> Result {
    policy::allow_counting()?;
    // Declared before the guard, and so freed after the lock is released.
    let _freed;
    let mut arbiter = ARBITER.lock();
    arbiter.trace.life.after(TraceCall::Free)?;
    // INVARIANT: All that an idle trace does not have is gone; the events that were defined stay.
    let idle = Trace {
        definitions: arbiter.trace.definitions.take(),
        ..Trace::new()
    };
    _freed = mem::replace(&mut arbiter.trace, idle);
    Ok(())
}

/// `IOCTL_PERFMON_GET_ALLOC`
pub(crate) fn get_alloc(_session: &Session) -> Result<abi::perfmon_alloc> {
    policy::allow_counting()?;
    let arbiter = ARBITER.lock();
    arbiter.trace.life.after(TraceCall::GetAlloc)?;
    Ok(arbiter.trace.alloc)
}

/// `IOCTL_PERFMON_STAGE_CONFIG`
pub(crate) fn stage(_session: &Session, raw: KBox<abi::perfmon_config>) -> Result {
    policy::allow_counting()?;
    let reveal = policy::allow_kernel();
    if raw
        .flags
        .iter()
        .any(|flags| flags & abi::PERFMON_CONFIG_FLAG_OS != 0)
    {
        reveal?;
    }
    let mut config = KBox::new(Config::EMPTY, GFP_KERNEL_ACCOUNT)?;
    // Declared before the guard, and so freed after the lock is released; the same holds for `raw` and
    // `config` on errors.
    let _replaced;
    let mut arbiter = ARBITER.lock();
    let trace = &mut arbiter.trace;
    let life = trace.life.after(TraceCall::Stage)?;
    config.set(&raw, &pmu::model().capabilities, |id| trace.definition(id))?;
    _replaced = trace.staged.replace(Staged {
        raw,
        config,
        reveal: reveal.is_ok(),
    });
    // INVARIANT: It is staged.
    trace.life = life;
    Ok(())
}

/// `IOCTL_PERFMON_GET_CONFIG`
pub(crate) fn get_config(_session: &Session) -> Result<abi::perfmon_config> {
    policy::allow_counting()?;
    let arbiter = ARBITER.lock();
    arbiter.trace.life.after(TraceCall::GetConfig)?;
    arbiter
        .trace
        .staged
        .as_ref()
        .map(|staged| *staged.raw)
        .ok_or(WrongState.into())
}

/// `IOCTL_PERFMON_GET_BUFFER_HANDLE`
pub(crate) fn handle(_session: &Session, request: abi::perfmon_buffer_handle_req) -> Result<c_int> {
    if request.descriptor >= nr_cpu_ids() {
        return Err(EINVAL);
    }
    policy::allow_counting()?;
    let buffer = {
        let arbiter = ARBITER.lock();
        arbiter.trace.life.after(TraceCall::GetBufferHandle)?;
        let buffer = arbiter.trace.buffers.get(request.descriptor as usize);
        buffer.ok_or(EINVAL)?.clone()
    };
    file::open(buffer)
}

/// `IOCTL_PERFMON_START`
pub(crate) fn start(_session: &Session) -> Result {
    let model = pmu::model();
    policy::allow_counting()?;
    let mut guard = ARBITER.lock();
    let arbiter: &mut Arbiter = &mut guard;
    let life = arbiter.trace.life.after(TraceCall::Start)?;
    let staged = arbiter.trace.staged.as_ref().ok_or(WrongState)?;
    if staged.config.has_kernel() {
        policy::allow_kernel()?;
    }
    let taken = bits(arbiter.all().map(|(id, _)| id));
    let free = model.capabilities.counters() & !taken;
    let counters = staged.config.assign(free).ok_or(EBUSY)?;

    let ours = bits(counters.iter().flatten().copied());
    arbiter.reserve()?;
    let trace = &mut arbiter.trace;
    // INVARIANT: The counters are reserved, and were free.
    trace.life = life;
    trace.counters = ours;
    for (cpu, buffer) in cpu::ids().zip(&trace.buffers) {
        if buffer.is_traced() && !arbiter.counted.contains(cpu) {
            // SAFETY: No CPU records yet.
            unsafe { buffer.as_ptr().begin(abi::PERFMON_BUFFER_FLAG_OFFLINE) };
        }
    }
    for cpu in arbiter.known.iter() {
        cpu::slot(cpu).tampered.remove(ours);
    }
    let trace = &arbiter.trace;
    if let Some(staged) = &trace.staged {
        let program = Program {
            config: &staged.config,
            counters: &counters,
            reveal: staged.reveal,
        };
        on_each(&arbiter.counted, |here| {
            if let Some(buffer) = trace.buffer() {
                recorder::begin(here, model, &program, buffer);
            }
        });
    }
    if each(ours).all(|id| arbiter.is_intact(id)) {
        Ok(())
    } else {
        end(arbiter)
    }
}

/// `IOCTL_PERFMON_STOP`
pub(crate) fn stop(_session: &Session) -> Result {
    policy::allow_counting()?;
    let mut arbiter = ARBITER.lock();
    arbiter.trace.life.after(TraceCall::Stop)?;
    end(&mut arbiter)
}

/// Stops the trace on all CPUs, if it runs.
///
/// # Errors
///
/// EIO if one of its counters was tampered with.
fn end(arbiter: &mut Arbiter) -> Result {
    if arbiter.trace.life != TraceState::Running {
        return Ok(());
    }
    let model = pmu::model();
    on_each(&arbiter.counted, |here| recorder::finish(here, model, 0));
    let intact = each(arbiter.trace.counters).all(|id| arbiter.is_intact(id));
    // INVARIANT: No CPU records any more, so that there is nothing left for which the counters would be
    // needed.
    arbiter.trace.life = TraceState::Staged;
    arbiter.trace.counters = 0;
    arbiter.leave_if_unused();
    if intact {
        Ok(())
    } else {
        Err(EIO)
    }
}

/// Ends the trace on this CPU alone: it will be offline, or asleep.
pub(crate) fn part(here: &ThisCpu, model: &Model) {
    recorder::finish(here, model, abi::PERFMON_BUFFER_FLAG_OFFLINE);
}

/// Stops the trace of a session that ends, and takes it out of the arbiter: to be freed without its lock.
pub(crate) fn release(arbiter: &mut Arbiter) -> Trace {
    // No program is left to be told of an error.
    let _ = end(arbiter);
    mem::replace(&mut arbiter.trace, Trace::new())
}

/// `IOCTL_PERFMON_GET_PROPERTIES`
pub(crate) fn properties(_session: &Session) -> Result<abi::perfmon_properties> {
    let c = &pmu::model().capabilities;
    let (general, fixed) = (u16::from(c.general), c.fixed.count_ones() as u16);
    Ok(abi::perfmon_properties {
        api_version: abi::PERFMON_API_VERSION as u16,
        pm_version: u16::from(c.version),
        max_num_events: general + fixed,
        reserved: 0,
        max_num_fixed_events: fixed,
        max_fixed_counter_width: u16::from(c.fixed_width),
        max_num_programmable_events: general,
        max_programmable_counter_width: u16::from(c.general_width),
        max_num_misc_events: 0,
        max_misc_counter_width: 0,
        flags: if c.last_branch {
            abi::PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH
        } else {
            0
        },
    })
}

/// `PERFMON_GET_INFO`
pub(crate) fn info(_session: &Session) -> Result<abi::perfmon_info> {
    Ok(abi::perfmon_info {
        nr_cpu_ids: nr_cpu_ids(),
        flags: 0,
        features: if pmu::model().capabilities.full_width_writes {
            abi::PERFMON_FEATURE_FULL_WIDTH_WRITES.into()
        } else {
            0
        },
        reserved: [0; 6],
    })
}
