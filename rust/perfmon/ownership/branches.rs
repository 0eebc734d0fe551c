// SPDX-License-Identifier: GPL-2.0-only
//! Ownership of the branch records (LBR). A CPU has one stack of branch records with one filter, so all users need the
//! same filter.

use super::{owner::BranchUser, ownership::Ownership};
use crate::logic::branches::Branches;
use kernel::prelude::*;

impl Ownership {
    /// Lets a trace record branches.
    ///
    /// # Errors
    ///
    /// EBUSY if a trace or events record branches already.
    pub(crate) fn begin_traced_branches(&mut self) -> Result {
        match self.branch_user {
            None => {
                self.branch_user = Some(BranchUser::Trace);
                Ok(())
            }
            Some(_) => Err(EBUSY),
        }
    }

    /// Undoes [`Self::begin_traced_branches`], if the trace records branches.
    pub(crate) fn end_traced_branches(&mut self) {
        if let Some(BranchUser::Trace) = self.branch_user {
            self.branch_user = None;
        }
    }

    /// Lets one more event record branches.
    ///
    /// # Errors
    ///
    /// EBUSY if a trace records branches, or an event records them with another filter.
    pub(crate) fn begin_branches(&mut self, branches: Branches) -> Result {
        let user_count = match self.branch_user {
            None => 0,
            Some(BranchUser::Events(used_filter, user_count)) if used_filter == branches => {
                user_count
            }
            Some(_) => return Err(EBUSY),
        };
        self.branch_user = Some(BranchUser::Events(branches, user_count + 1));
        Ok(())
    }

    /// Undoes [`Self::begin_branches`].
    pub(crate) fn end_branches(&mut self) {
        self.branch_user = match self.branch_user {
            Some(BranchUser::Events(branches, user_count)) if user_count > 1 => {
                Some(BranchUser::Events(branches, user_count - 1))
            }
            _ => None,
        };
    }
}
