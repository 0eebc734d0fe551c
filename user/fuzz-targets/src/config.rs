// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configs of traces, as programs may pass them to the driver.

use perfmon::trace::{Config as LibraryConfig, ConfigError, ConfigProblem};
use perfmon_core::abi;
use perfmon_core::logic::branch_records::BranchRecords;
use perfmon_core::logic::core_kinds::CoreKinds;
use perfmon_core::logic::counter::{self, CounterId};
use perfmon_core::logic::cpuid::Capabilities;
use perfmon_core::logic::evtsel::EventSelect;
use perfmon_core::logic::trace_config::{Config, EventRole, InvalidConfig, MAX_EVENTS};
use perfmon_core::logic::trace_events::{Definition, EventId};
use perfmon_core::logic::trace_record::HEADER_BYTES;
use zerocopy::{FromZeros, IntoBytes};

/// A config that a program stages, and the CPUs that have to record it.
struct Request {
    raw: abi::perfmon_config,
    cpus: Capabilities,
    /// The counters that no other owner has, as a bitmap.
    free_counters: u64,
}

/// Size in bytes of the description of the CPUs, which comes first in the input.
const CPU_BYTES: usize = 20;

impl Request {
    /// Decodes 20 bytes that describe the CPUs, and a `struct perfmon_config`. Missing bytes are 0.
    fn from_bytes(bytes: &[u8]) -> Self {
        let mut cpus = [0; CPU_BYTES];
        let mut raw = abi::perfmon_config::new_zeroed();
        let targets = cpus.iter_mut().chain(raw.as_mut_bytes());
        targets.zip(bytes).for_each(|(to, from)| *to = *from);
        let [
            general_count,
            general_width,
            fixed_width,
            switches,
            f0,
            f1,
            a0,
            a1,
            ..,
        ] = cpus;
        let free_counters =
            u64::from_le_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|n: usize| cpus[n]));
        Self {
            raw,
            cpus: Capabilities {
                general_count: general_count % 33,
                general_width: general_width % 65,
                fixed_width: fixed_width % 65,
                full_width_writes: switches & 1 != 0,
                last_branch: match switches & 6 {
                    2 => Some(BranchRecords::Stack),
                    6 => Some(RECORDS_WITHOUT_FREEZING),
                    _ => None,
                },
                fixed: u16::from_le_bytes([f0, f1]),
                arch_events: u16::from_le_bytes([a0, a1]).into(),
                ..Capabilities::NONE
            },
            free_counters,
        }
    }

    /// Returns whether the CPUs have an event. They have the model-specific events that [`definition`] defines.
    fn is_known(&self, id: u16) -> bool {
        EventId(id).encoding(&self.cpus, definition).is_some()
    }

    /// Returns the rows of the config: each event with its rate and its flags.
    fn rows(&self) -> impl Iterator<Item = (u16, u32, u32)> + '_ {
        let rows = self.raw.events.iter().zip(&self.raw.rate);
        let rows = rows.zip(&self.raw.flags);
        rows.map(|((&id, &rate), &flags)| (id, rate, flags))
    }

    /// Returns whether the config breaks a rule of Documentation/abi.rst.
    fn breaks(&self, rule: InvalidConfig) -> bool {
        let end = self.rows().position(|row| row.0 == 0).unwrap_or(MAX_EVENTS);
        let used_rows = || self.rows().take(end);
        let has = |row: (u16, u32, u32), flag| row.2 & flag != 0;
        let timebase = |row| has(row, abi::PERFMON_CONFIG_FLAG_TIMEBASE0);
        let branches = |row| has(row, abi::PERFMON_CONFIG_FLAG_LAST_BRANCH);
        let modes = |row: (u16, u32, u32)| {
            row.2 & (abi::PERFMON_CONFIG_FLAG_USER | abi::PERFMON_CONFIG_FLAG_OS)
        };
        // The first event is the timebase, and may tick. Events that follow the timebase never
        // tick.
        let ticks = |n: usize, row| self.raw.rate[n] != 0 && (n == 0 || !timebase(row));
        match rule {
            InvalidConfig::NoEvent => end == 0,
            InvalidConfig::AfterTheEnd => self.rows().skip(end).any(|row| row != (0, 0, 0)),
            InvalidConfig::Flag => used_rows().any(|row| has(row, !abi::PERFMON_CONFIG_FLAG_MASK)),
            InvalidConfig::Event => used_rows().any(|row| !self.is_known(row.0)),
            InvalidConfig::Twice => {
                (0..end).any(|n| self.raw.events[..n].contains(&self.raw.events[n]))
            }
            InvalidConfig::TooMany => {
                used_rows().filter(|row| !is_fixed(row.0)).count() > self.cpus.general_count.into()
            }
            InvalidConfig::Rate => (0..).zip(used_rows()).any(|(n, row)| {
                let width = if is_fixed(row.0) {
                    self.cpus.fixed_width
                } else {
                    self.cpus.general_width
                };
                let all_bits = (1_u128 << width) - 1;
                let writable = self.cpus.full_width_writes || row.1 <= 1 << 31;
                ticks(n, row) && (u128::from(row.1) > all_bits || !writable)
            }),
            InvalidConfig::LastBranch => {
                let is_recorded = |row| match self.cpus.last_branch {
                    Some(RECORDS_WITHOUT_FREEZING) => !has(row, abi::PERFMON_CONFIG_FLAG_OS),
                    records => records.is_some(),
                };
                (0..)
                    .zip(used_rows())
                    .any(|(n, row)| branches(row) && !(ticks(n, row) && is_recorded(row)))
            }
            InvalidConfig::LastBranchModes => {
                let mut branch_modes = used_rows().filter(|row| branches(*row)).map(modes);
                branch_modes
                    .next()
                    .is_some_and(|first| branch_modes.any(|other| other != first))
            }
            InvalidConfig::Timebase => used_rows().any(timebase) && self.raw.rate[0] == 0,
        }
    }
}

/// Branch records that do not freeze. The driver refuses them for events that count the kernel.
const RECORDS_WITHOUT_FREEZING: BranchRecords = BranchRecords::Amd {
    depth: 16,
    address_bits: 48,
    freezes: false,
};

/// All rules.
const RULES: [InvalidConfig; 10] = [
    InvalidConfig::NoEvent,
    InvalidConfig::AfterTheEnd,
    InvalidConfig::Flag,
    InvalidConfig::Event,
    InvalidConfig::Twice,
    InvalidConfig::TooMany,
    InvalidConfig::Rate,
    InvalidConfig::LastBranch,
    InvalidConfig::LastBranchModes,
    InvalidConfig::Timebase,
];

/// Returns the program's definition of a model-specific event. Events with even numbers are
/// defined; others are not.
fn definition(id: EventId) -> Option<Definition> {
    let select = EventSelect::new(id.number().to_le_bytes()[0].into(), 0);
    (id.group() == abi::PERFMON_GROUP_MODEL && id.number() % 2 == 0)
        .then(|| Definition::on_all(select))
}

fn is_fixed(id: u16) -> bool {
    EventId(id).group() == abi::PERFMON_GROUP_FIXED
}

/// Passes a config to the driver's check. If the driver accepts a config, the config breaks no
/// rule, there is a counter for each event, and the records of a sample and of STOP fit into a
/// buffer of one page. If the driver refuses a config, the config breaks the rule that the error
/// names. The library accepts the same configs.
///
/// # Panics
/// If one of these properties does not hold.
pub fn config(bytes: &[u8]) {
    let request = Request::from_bytes(bytes);
    let kinds = CoreKinds::one(&request.cpus);
    match Config::new(&request.raw, &request.cpus, &kinds, definition) {
        Err(rule) => assert!(request.breaks(rule), "{rule:?} is not broken"),
        Ok(config) => {
            for rule in RULES {
                assert!(!request.breaks(rule), "{rule:?} is broken");
            }
            check_accepted(&request, &config);
        }
    }
}

/// Checks the properties of a config that the driver has accepted.
fn check_accepted(request: &Request, config: &Config) {
    assert!(
        config
            .events()
            .map(|e| e.id.0)
            .eq(request.rows().map(|row| row.0).take_while(|id| *id != 0))
    );
    for (event, (_, rate, flags)) in config.events().zip(request.rows()) {
        assert_eq!(
            event.select.is_user(),
            flags & abi::PERFMON_CONFIG_FLAG_USER != 0
        );
        assert_eq!(
            event.select.is_kernel(),
            flags & abi::PERFMON_CONFIG_FLAG_OS != 0
        );
        assert!(!event.pc || matches!(event.role, EventRole::Sampled(_)));
        if let EventRole::Sampled(ticks) = event.role {
            assert_eq!(ticks, rate);
        }
    }
    let room = config.sample_room();
    assert!(
        HEADER_BYTES + room.sample_bytes + room.stop_bytes <= 4096,
        "{room:?}"
    );

    let all_counters = request.cpus.counters();
    assert!(
        config.assign(all_counters).is_some(),
        "the CPUs have not enough"
    );
    if let Some(counters) = config.assign(all_counters & request.free_counters) {
        let assigned_counters: Vec<CounterId> = counters.into_iter().flatten().collect();
        assert_eq!(assigned_counters.len(), config.events().count());
        let bits = counter::mask_of(assigned_counters.iter().copied());
        assert_eq!(
            bits.count_ones() as usize,
            assigned_counters.len(),
            "one has two events"
        );
        assert_eq!(
            bits & !(all_counters & request.free_counters),
            0,
            "it is another's"
        );
    }

    match LibraryConfig::from_abi(&request.raw) {
        Ok(library) => assert_eq!(library.to_abi().as_bytes(), request.raw.as_bytes()),
        // The driver accepts an event without modes, although it never counts. The library has no
        // such events.
        Err(ConfigError { problem, .. }) => assert_eq!(problem, ConfigProblem::NoModes),
    }
}
