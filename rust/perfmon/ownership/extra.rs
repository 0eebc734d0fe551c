// SPDX-License-Identifier: GPL-2.0-only
//! The [extra registers](crate::logic::extra_registers) that events use.

use super::{ownership::Ownership, sharing::EventPlace};
use crate::{
    logic::extra_registers::{ExtraValue, RegisterUsers},
    pmu::extra::{check, RegisterError},
    sys::error::errno,
};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use kernel::{bindings, prelude::*};

impl Ownership {
    /// Returns the events that use the register; `None` if no event does.
    fn register_users_of(&self, extra: ExtraValue) -> Option<&RegisterUsers> {
        self.register_users[extra.kind.number()][extra.register.index()].as_ref()
    }

    /// Returns whether events use the register, all with this value.
    pub(crate) fn has_register_value(&self, extra: ExtraValue) -> bool {
        self.register_users_of(extra)
            .is_some_and(|users| users.all_have(extra.value))
    }

    /// Checks that one more event at `place` can use the register with this value.
    ///
    /// # Errors
    ///
    /// EBUSY if events use the register with another value, and may count at the same time.
    /// EOPNOTSUPP if a CPU lacks the register, EINVAL if a CPU refuses the value.
    pub(crate) fn check_register(&self, place: EventPlace, extra: ExtraValue) -> Result {
        let users = self.register_users_of(extra);
        if users.is_some_and(|users| !users.can_admit(place.kind, extra.value)) {
            return Err(EBUSY);
        }
        // ATOMICS: relaxed: the calls have returned before the values are read.
        let (is_missing, is_refused) = (AtomicBool::new(false), AtomicBool::new(false));
        self.on_each(|here| {
            if here.percpu().core_kind() != extra.kind {
                return;
            }
            match check(here, extra) {
                Ok(()) => {}
                Err(RegisterError::Missing) => is_missing.store(true, Relaxed),
                Err(RegisterError::ValueRefused) => is_refused.store(true, Relaxed),
            }
        });
        if is_missing.load(Relaxed) {
            Err(errno(bindings::EOPNOTSUPP))
        } else if is_refused.load(Relaxed) {
            Err(EINVAL)
        } else {
            Ok(())
        }
    }

    /// Adds an event that uses the register, after [`Self::check_register`].
    pub(crate) fn add_register_user(&mut self, place: EventPlace, extra: ExtraValue) {
        let users = &mut self.register_users[extra.kind.number()][extra.register.index()];
        match users {
            Some(users) => users.add(place.kind, extra.value),
            None => *users = Some(RegisterUsers::new(place.kind, extra.value)),
        }
    }

    /// Undoes [`Self::add_register_user`].
    pub(crate) fn remove_register_user(&mut self, place: EventPlace, extra: ExtraValue) {
        let users = &mut self.register_users[extra.kind.number()][extra.register.index()];
        let has_users = users
            .as_mut()
            .is_some_and(|users| users.remove(place.kind, extra.value));
        if !has_users {
            *users = None;
        }
    }
}
