//! Hints of what is pushed, before the member has told of it.
//!
//! A push is registered with the store of the member that the name belongs to; what was known of that store travels with the push, so
//! that the member sees which of its updates may have come in between (`hints::Registrar`). A push that was not stored, as far as is
//! known, is withdrawn: the member then tells what is true.
//!
//! Not known here: how a push is sent.
//= paper 003 section 5   eager hint registration

use hints::{
    frames::{Frame, Known, Withdrawn},
    view::{Followed, Groups, Naming},
};
use store::set;

use crate::{
    following::{trace_of, tracing},
    member::Member,
};

/// A push that is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registered {
    /// The number of the member's store.
    pub column: u8,
    /// What was known of it.
    pub known: Known,
    /// The trace of the name there.
    pub trace: u64,
}

/// Registers that a member has what has this name. Nothing is registered with a member that has not told of its stores yet.
pub fn register(groups: &Groups, member: u8, name: &[u8]) -> Registered {
    let columns = || groups.columns_of(member);
    let Some(first) = columns().next() else {
        return Registered::default();
    };
    let naming = |followed: &Followed| Naming {
        seed: followed.column.seed,
        index: followed.column.index,
    };
    // The stores of a member are a set: they share a seed.
    let primary = tracing(naming(first)).hash(name);
    let weights = columns().map(|followed| (followed.column.store, followed.column.weight));
    let owner = set::owner_among(primary, weights).and_then(|number| columns().nth(number));
    let Some(owner) = owner else {
        return Registered::default();
    };
    Registered {
        column: owner.number,
        known: groups.register(member, owner.number, trace_of(name)),
        trace: trace_of(name)(naming(owner)),
    }
}

/// Tells a member that it has not stored what was registered, as far as is known.
pub fn withdraw(member: &Member, registered: Registered) {
    let Registered { column, trace, .. } = registered;
    let withdrawn = Frame::Withdrawn(Withdrawn {
        column,
        number: trace,
    });
    member.withdraw(withdrawn.to_bytes().into());
}
