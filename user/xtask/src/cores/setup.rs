// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the tables that `intel_pmu_init()` sets up for a model: executes the statements of the
//! model's case that name a table, and skips all other statements.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::memory_tables::{MemoryEvent, MemorySetup, function_for_kind};
use super::source::Source;
use super::tables::{
    CacheTable, Constraint, EventMap, ExtraEvent, cache_table, constraints, event_map,
    extra_register_events, set_cell, set_event,
};

/// Linux's tables for a core.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) constraints: Vec<Constraint>,
    /// The constraints of precise samples.
    pub(super) precise_constraints: Vec<Constraint>,
    pub(super) extra_register_events: Vec<ExtraEvent>,
    pub(super) caches: CacheTable,
    pub(super) hardware_events: EventMap,
    pub(super) memory: MemorySetup,
}

impl Setup {
    /// Returns the access to memory that precise samples of an event have; `None` if they have
    /// none.
    pub(super) fn memory_event(&self, event: u64) -> Option<MemoryEvent> {
        let mut constraints = self.precise_constraints.iter();
        let constraint = constraints.find(|constraint| constraint.applies(event))?;
        constraint.memory_event
    }

    /// Returns the extra register of an event, if it needs one.
    pub(super) fn extra_event(&self, event: u64) -> Option<&ExtraEvent> {
        let mut events = self.extra_register_events.iter();
        events.find(|extra| extra.event == event)
    }
}

/// A kind of core: `Only` if the processor is not hybrid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Only,
    Core,
    Atom,
    LowPower,
}

impl Kind {
    /// Returns the name in `enum hybrid_pmu_type`.
    fn name_in_linux(self) -> &'static str {
        match self {
            Self::Only => "",
            Self::Core => "hybrid_big",
            Self::Atom => "hybrid_small",
            Self::LowPower => "hybrid_tiny",
        }
    }
}

/// Returns the tables for each kind of core of a model. `model` is the name in
/// `asm/intel-family.h`. The map is empty if Linux has no case for the model.
pub(super) fn setups(source: &Source, model: &str) -> Result<BTreeMap<Kind, Setup>> {
    let body = source.body("__init int intel_pmu_init(void)\n")?;
    let case = format!("case {model}:");
    let Some(mut at) = body.find(&case) else {
        return Ok(BTreeMap::new());
    };
    let mut interpreter = Interpreter {
        source,
        kind: Kind::Only,
        setups: BTreeMap::new(),
        hardware_events: event_map(source, "intel_perfmon_event_map")?,
        memory: MemorySetup::new(source)?,
        latency_function: None,
    };
    loop {
        let (statement, _) = body[at..]
            .split_once(';')
            .with_context(|| format!("the case of {model} has no end"))?;
        at += statement.len() + 1;
        if let Some((_, label)) = statement.rsplit_once("goto ") {
            at = label_position(&body, label)
                .with_context(|| format!("{model} goes to {label}, which does not exist"))?;
        } else if statement.ends_with("break") {
            break;
        } else {
            interpreter.execute(statement)?;
        }
    }
    // On a hybrid processor, statements before the first kind of core belong to no core.
    if interpreter.kind != Kind::Only {
        interpreter.setups.remove(&Kind::Only);
    }
    if let Some(name) = interpreter.latency_function {
        for (kind, setup) in &mut interpreter.setups {
            let function = function_for_kind(source, &name, kind.name_in_linux())?;
            setup.memory.latency_function = function;
        }
    }
    Ok(interpreter.setups)
}

/// Returns the position of a label, which follows the end of another statement.
fn label_position(body: &str, label: &str) -> Option<usize> {
    let mut statement_ends = [';', '}', '{'].into_iter();
    statement_ends
        .find_map(|end| body.find(&format!("{end}{label}:")))
        .map(|at| at + 1)
}

/// The state that the statements change.
struct Interpreter<'a> {
    source: &'a Source,
    kind: Kind,
    setups: BTreeMap<Kind, Setup>,
    /// The hardware events before any case changes them.
    hardware_events: EventMap,
    /// The records of precise samples before any case changes their meaning.
    memory: MemorySetup,
    /// The function for all kinds of cores, which decodes the source of data in the records of precise samples.
    latency_function: Option<String>,
}

impl Interpreter<'_> {
    /// Executes a statement. The statement has no white space.
    fn execute(&mut self, statement: &str) -> Result<()> {
        if let Some(kind) = between(statement, "X86_HYBRID_PMU_", "_IDX]") {
            self.kind = match kind {
                "CORE" => Kind::Core,
                "ATOM" => Kind::Atom,
                "TINY" => Kind::LowPower,
                _ => bail!("{kind} is an unknown kind of core"),
            };
        }
        // Other statements call functions, whose own statements name tables: these are executed,
        // too.
        let function = between(statement, "intel_pmu_init_", "(");
        if let Some(name) = function.filter(|name| *name != "hybrid") {
            return self.call(&format!(
                "__always_inline void intel_pmu_init_{name}(struct pmu *pmu)\n"
            ));
        }
        if statement.contains("intel_pmu_ref_cycles_ext(") {
            return self.call("__always_inline void intel_pmu_ref_cycles_ext(void)\n");
        }
        let sources_function = [
            "__intel_pmu_pebs_data_source_",
            "intel_pmu_pebs_data_source_",
        ]
        .iter()
        .find_map(|start| Some(format!("{start}{}", between(statement, start, "(")?)));
        if let Some(name) = sources_function {
            return self.call(&format!("void __init {name}("));
        }
        let source = self.source;
        let hardware_events = self.hardware_events;
        let memory = &self.memory;
        let setup = self.setups.entry(self.kind).or_insert_with(|| Setup {
            hardware_events,
            memory: memory.clone(),
            ..Setup::default()
        });
        setup.memory.execute(source, statement)?;
        let value = |field: &str| {
            ["x86_pmu.FIELD=", "hybrid(pmu,FIELD)=", "pmu->FIELD="]
                .iter()
                .find_map(|form| statement.split_once(&form.replace("FIELD", field)))
                .map(|(_, value)| value)
        };
        if let Some(name) = value("event_constraints") {
            setup.constraints = constraints(source, name)?;
        } else if let Some(name) = value("pebs_constraints").filter(|name| *name != "NULL") {
            setup.precise_constraints = constraints(source, name)?;
        } else if let Some(name) = value("pebs_latency_data") {
            self.latency_function = Some(name.to_owned());
        } else if let Some(name) = value("extra_regs") {
            setup.extra_register_events = extra_register_events(source, name)?;
        } else if statement.contains("intel_perfmon_event_map[") {
            set_event(&mut setup.hardware_events, statement)?;
        } else if statement.contains("memcpy(") {
            // The target is `hw_cache_event_ids`, or the member of this name of a kind of core.
            if let Some(name) = between(statement, "hw_cache_event_ids,", ",")
                .or_else(|| between(statement, "hw_cache_event_ids),", ","))
            {
                setup.caches = cache_table(source, name)?;
            }
        } else if let Some((_, cell)) = statement.split_once("hw_cache_event_ids") {
            set_cell(&mut setup.caches, cell)?;
        }
        Ok(())
    }

    /// Executes the statements of a function.
    fn call(&mut self, start: &str) -> Result<()> {
        let body = self.source.body(start)?;
        let mut statements = body.split(';').filter(|statement| !statement.is_empty());
        statements.try_for_each(|statement| self.execute(statement))
    }
}

/// Returns the text between two other texts.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(text_between, _)| text_between)
}
