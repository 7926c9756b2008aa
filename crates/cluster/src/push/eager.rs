//! Hints for pushed objects, before the member has told of them itself.
//!
//! A push is registered with the member's store that owns the name. The push carries how far this front has followed that store, so that the
//! member knows which of its updates may have come in between (`hints::Registrar`). If the push seems not to be stored, the registration is
//! withdrawn, and the member tells whether it holds the name.
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

/// A registered push.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registered {
    /// The number of the member's store.
    pub column: u8,
    /// How far the store had been followed.
    pub known: Known,
    /// The trace of the name in that store.
    pub trace: u64,
}

/// Registers that a member holds the object of this name. A member that has not announced its stores yet gets no registration.
pub fn register(groups: &Groups, member: u8, name: &[u8]) -> Registered {
    let columns = || groups.columns_of(member);
    let Some(first) = columns().next() else {
        return Registered::default();
    };
    let naming = |followed: &Followed| Naming {
        seed: followed.column.seed,
        index: followed.column.index,
    };
    // The stores of a member form a set, so they have the same seed.
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

/// Tells a member that the registered push seems not to be stored.
pub fn withdraw(member: &Member, registered: Registered) {
    let Registered { column, trace, .. } = registered;
    let withdrawn = Frame::Withdrawn(Withdrawn {
        column,
        number: trace,
    });
    member.withdraw(withdrawn.to_bytes().into());
}
